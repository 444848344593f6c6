#include "lib/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace runnel {

Routing::Routing(std::size_t max_tokens, std::size_t n_expert, std::size_t n_used)
    : n_expert_(n_expert),
      n_used_(n_used),
      max_tokens_(max_tokens),
      tokens_(n_expert * max_tokens),
      weights_(n_expert * max_tokens),
      counts_(n_expert),
      order_(n_expert) {}

std::size_t Routing::n_bytes(std::size_t max_tokens, std::size_t n_expert) {
  return n_expert * (max_tokens * (sizeof(std::size_t) + sizeof(float)) + 2 * sizeof(std::size_t));
}

void Routing::assign(const float* scores, std::size_t n_tok) noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  for (std::size_t t = 0; t < n_tok; ++t) {
    const float* row = scores + t * n_expert_;
    find_best(row);
    const std::span best(order_.data(), n_used_);
    // Of a softmax only the ratios of the chosen ones matter, so it is taken over these alone.
    float sum = 0;
    for (const std::size_t e : best) {
      const float weight = std::exp(row[e] - row[best[0]]);
      sum += weight;
      tokens_[e * max_tokens_ + counts_[e]] = t;
      weights_[e * max_tokens_ + counts_[e]++] = weight;
    }
    for (const std::size_t e : best) weights_[e * max_tokens_ + counts_[e] - 1] /= sum;
  }
}

void Routing::find_best(const float* row) noexcept {
  const auto score = [row](std::size_t e) { return std::isnan(row[e]) ? -INFINITY : row[e]; };
  const auto comes_first = [&](std::size_t a, std::size_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  };
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(n_used_), order_.end(),
                    comes_first);
}

Routing::Share Routing::of(std::size_t expert) const noexcept {
  return {tokens_.data() + expert * max_tokens_, weights_.data() + expert * max_tokens_, counts_[expert]};
}

}  // namespace runnel
