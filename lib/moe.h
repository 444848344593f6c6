// Which tokens go to which experts of a mixture (Shazeer et al. 2017; Mixtral: Jiang et al. 2024,
// section 2.1).
#pragma once
#include <cstddef>
#include <vector>

namespace runnel {

class Routing {
 public:
  Routing(std::size_t max_tokens, std::size_t n_expert, std::size_t n_used);
  static std::size_t n_bytes(std::size_t max_tokens, std::size_t n_expert);

  // scores: router outputs [n_tok, n_expert]. Each token takes the n_used experts of highest probability,
  // weighted by it, the weights made to sum to 1. Scores that are no numbers make such weights, but never one
  // expert twice.
  void assign(const float* scores, std::size_t n_tok) noexcept;

  // The tokens of one expert in order, and each one's weight.
  struct Share {
    const std::size_t* tokens;
    const float* weights;
    std::size_t n;
  };
  Share of(std::size_t expert) const noexcept;

 private:
  // Whether expert e has taken token t, the last that any has taken.
  bool has_taken(std::size_t e, std::size_t t) const noexcept;
  // Of the experts that have not, the one of highest score, the first of several.
  std::size_t best_left(const float* row, std::size_t t) const noexcept;

  std::size_t n_expert_, n_used_, max_tokens_;
  std::vector<std::size_t> tokens_;  // [n_expert, max_tokens]
  std::vector<float> weights_;       // [n_expert, max_tokens]
  std::vector<std::size_t> counts_;  // [n_expert]
};

}  // namespace runnel
