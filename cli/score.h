// Negative log-likelihoods and the perplexity they make.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.h"

namespace cli {

// A model's results are not numbers. Whoever knows which model adds its path.
struct DamagedWeights : Failure {
  DamagedWeights() : Failure("the model's results are not numbers: a weight in the file is damaged") {}
};

// What score() returns; a Failure that names the model where it throws DamagedWeights.
template <class Scoring>
inline auto naming_model(const std::string& path, Scoring score) {
  try {
    return score();
  } catch (const DamagedWeights& damage) {
    throw Failure(path + ": " + damage.what());
  }
}

// Log of the sum of exp(logits); logits [n_vocab]. In double: the sum has as many terms as the vocabulary.
// Throws DamagedWeights.
inline double log_sum(const float* logits, std::size_t n_vocab) {
  const float largest = *std::max_element(logits, logits + n_vocab);
  double sum = 0.0;
  for (std::size_t i = 0; i < n_vocab; ++i) sum += std::exp(static_cast<double>(logits[i]) - largest);
  const double result = std::log(sum) + largest;
  if (!std::isfinite(result)) throw DamagedWeights();
  return result;
}

// -log softmax(logits)[token] in nats.
inline double negative_log_likelihood(const float* logits, std::size_t n_vocab, std::int32_t token) {
  return log_sum(logits, n_vocab) - logits[token];
}

// Sums over scored tokens.
class Score {
 public:
  void add(double nll) {
    sum_ += nll;
    sum_of_squares_ += nll * nll;
    ++n_;
  }
  std::int64_t n() const { return n_; }
  double mean() const { return n_ > 0 ? sum_ / static_cast<double>(n_) : 0.0; }
  double perplexity() const { return std::exp(mean()); }
  // Standard error of the mean, and that of the perplexity: the same carried through exp().
  double mean_error() const {
    if (n_ < 2) return 0.0;
    const double variance = sum_of_squares_ / static_cast<double>(n_) - mean() * mean();
    return variance > 0.0 ? std::sqrt(variance / static_cast<double>(n_ - 1)) : 0.0;
  }
  double error() const { return mean_error() * perplexity(); }

 private:
  double sum_ = 0.0, sum_of_squares_ = 0.0;
  std::int64_t n_ = 0;
};

}  // namespace cli
