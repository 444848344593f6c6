// How far a model's predictions are from those of another, token by token.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "json.h"
#include "score.h"

namespace cli {

// "1.0461e-04"
std::string scientific(double value);

class Divergence {
 public:
  explicit Divergence(std::string base_path) : base_path_(std::move(base_path)) {}

  // What both predict after the same tokens, logits [n_vocab], and the token that did follow. Throws
  // DamagedWeights of the model, and a Failure that names the base.
  void add(const float* base, const float* logits, std::size_t n_vocab, std::int32_t token);

  std::int64_t n() const { return base_.n(); }
  double mean() const { return kl_.mean(); }
  std::string text() const;
  void report(Json& out) const;

 private:
  double quantile(double share) const;
  double same_top() const { return static_cast<double>(n_same_top_) / static_cast<double>(n()); }
  double same_top_error() const;

  std::string base_path_;
  std::vector<double> values_;            // KL(base || model) in nats, one a token
  Score kl_, base_, model_, difference_;  // the last three: negative log-likelihoods, and model's less base's
  std::int64_t n_same_top_ = 0;
};

}  // namespace cli
