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
  // The n_used best experts of a token, the best first, to the front of order_; of equal ones the first.
  void find_best(const float* row) noexcept;

  std::size_t n_expert_, n_used_, max_tokens_;
  std::vector<std::size_t> tokens_;  // [n_expert, max_tokens]
  std::vector<float> weights_;       // [n_expert, max_tokens]
  std::vector<std::size_t> counts_;  // [n_expert]
  std::vector<std::size_t> order_;   // [n_expert] of the token at hand
};

}  // namespace runnel
