#include "lib/moe.h"

#include <algorithm>
#include <cmath>

namespace runnel {

Routing::Routing(std::size_t max_tokens, std::size_t n_expert, std::size_t n_used)
    : n_expert_(n_expert),
      n_used_(n_used),
      max_tokens_(max_tokens),
      tokens_(n_expert * max_tokens),
      weights_(n_expert * max_tokens),
      counts_(n_expert) {}

std::size_t Routing::n_bytes(std::size_t max_tokens, std::size_t n_expert) {
  return n_expert * (max_tokens * (sizeof(std::size_t) + sizeof(float)) + sizeof(std::size_t));
}

bool Routing::has_taken(std::size_t e, std::size_t t) const noexcept {
  return counts_[e] > 0 && tokens_[e * max_tokens_ + counts_[e] - 1] == t;
}

std::size_t Routing::best_left(const float* row, std::size_t t) const noexcept {
  std::size_t best = n_expert_;
  for (std::size_t e = 0; e < n_expert_; ++e) {
    if (has_taken(e, t)) continue;
    if (best == n_expert_ || row[best] < row[e]) best = e;
  }
  return best;
}

void Routing::assign(const float* scores, std::size_t n_tok) noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  for (std::size_t t = 0; t < n_tok; ++t) {
    const float* row = scores + t * n_expert_;
    // Of a softmax only the ratios of the chosen ones matter, so it is taken over these alone.
    float max = 0, sum = 0;
    for (std::size_t i = 0; i < n_used_; ++i) {
      const std::size_t e = best_left(row, t);
      if (i == 0) max = row[e];
      const float weight = std::exp(row[e] - max);
      sum += weight;
      tokens_[e * max_tokens_ + counts_[e]] = t;
      weights_[e * max_tokens_ + counts_[e]++] = weight;
    }
    for (std::size_t e = 0; e < n_expert_; ++e)
      if (has_taken(e, t)) weights_[e * max_tokens_ + counts_[e] - 1] /= sum;
  }
}

Routing::Share Routing::of(std::size_t expert) const noexcept {
  return {tokens_.data() + expert * max_tokens_, weights_.data() + expert * max_tokens_, counts_[expert]};
}

}  // namespace runnel
