// The definition of the stream, computed the slow way: keys are kept unrotated and all rotated anew at their
// cache position for every token, in double precision, without batches, blocks or rings. Shares nothing with
// lib/forward but the weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/model.h"

namespace runnel::test {

class SlowDecoder {
 public:
  SlowDecoder(const Model& model, std::size_t n_prefix, std::size_t window);

  // Reads a token; the logits [n_vocab] after it.
  std::vector<double> read(Token token);

 private:
  using Vector = std::vector<double>;
  struct Seen {  // a token in the cache: for each layer its key before rotation, and its value
    std::vector<Vector> keys, values;
  };

  Vector multiply(const Linear& w, const Vector& x) const;
  Vector norm(const NormWeights& w, const Vector& x) const;
  void rotate(double* head, double cache_position) const;
  Vector attention(const Layer& layer, std::size_t i_layer, const Vector& x);
  Vector ffn(const FfnWeights& w, const Vector& x) const;
  Vector experts(const Layer& layer, const Vector& x) const;
  double alibi_slope(std::size_t head) const;
  void add(Vector& stream, const NormWeights& post_norm, Vector y) const;

  const Model& model_;
  std::size_t n_prefix_, window_;
  std::vector<Seen> cache_;  // what is seen, in order; the token at hand is the last
  std::vector<double> frequencies_;
  mutable std::unordered_map<const std::byte*, std::vector<float>>
      decoded_;  // matrices, by where the file has them
};

}  // namespace runnel::test
