// The definition of the stream, computed the slow way: keys are kept unrotated and all rotated anew at their
// cache position for every token, in double precision, without batches, blocks or rings. What leaves a full
// cache is taken out of a list, token by token or by the exchange; learned positions are read again. Shares
// nothing with lib/ but the weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/model.h"

namespace runnel::test {

class SlowDecoder {
 public:
  SlowDecoder(const Model& model, std::size_t n_prefix, std::size_t window, bool by_turn = false);

  // GELU as llama.cpp computes it: looked up by its input as a half float in a table of half floats.
  void use_gelu_table() { has_gelu_table_ = true; }

  // Reads a token; the logits [n_vocab] after it.
  std::vector<double> read(Token token, bool begins_turn = false);

  // Forgets the last n tokens.
  void forget(std::size_t n) { cache_.resize(cache_.size() - n); }

  std::vector<Token> visible() const;

 private:
  using Vector = std::vector<double>;
  struct Seen {  // a token in the cache: for each layer its key before rotation, and its value
    Token token;
    bool begins_turn;
    std::vector<Vector> keys, values;
  };

  void make_room(bool begins_turn);
  std::size_t first_kept(bool begins_turn) const;
  Vector read_into(Token token, bool begins_turn);

  Vector multiply(const Linear& w, const Vector& x) const;
  Vector norm(const NormWeights& w, const Vector& x) const;
  void rotate(double* head, double cache_position) const;
  Vector attention(const Layer& layer, std::size_t i_layer, const Vector& x);
  double activate(double x) const;
  Vector ffn(const FfnWeights& w, const Vector& x) const;
  Vector experts(const Layer& layer, const Vector& x) const;
  double alibi_slope(std::size_t head) const;
  void add(Vector& stream, const NormWeights& post_norm, Vector y) const;

  const Model& model_;
  std::size_t n_prefix_, window_;
  bool by_turn_;
  bool has_gelu_table_ = false;
  std::vector<Seen> cache_;  // what is seen, in order; the token at hand is the last
  std::vector<double> frequencies_;
  mutable std::unordered_map<const std::byte*, std::vector<float>>
      decoded_;  // matrices, by where the file has them
};

}  // namespace runnel::test
