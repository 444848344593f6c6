#include "divergence.h"

#include <algorithm>
#include <cmath>

#include "console.h"

namespace cli {
std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4e", value);
  return text;
}

void Divergence::add(const float* base, const float* logits, std::size_t n_vocab, std::int32_t token) {
  const double base_sum = naming_model(base_path_, [&] { return log_sum(base, n_vocab); });
  const double sum = log_sum(logits, n_vocab);
  double kl = 0;
  for (std::size_t i = 0; i < n_vocab; ++i) {
    const double log_p = base[i] - base_sum, log_q = logits[i] - sum;
    if (const double p = std::exp(log_p); p > 0) kl += p * (log_p - log_q);
  }
  // Never below 0 but by rounding.
  kl = kl < 0 ? 0.0 : kl;
  values_.push_back(kl);
  kl_.add(kl);
  const double base_nll = base_sum - base[token], nll = sum - logits[token];
  base_.add(base_nll);
  model_.add(nll);
  difference_.add(nll - base_nll);
  n_same_top_ +=
      std::max_element(base, base + n_vocab) - base == std::max_element(logits, logits + n_vocab) - logits;
}

// The smallest value that at least this share of all are not above.
double Divergence::quantile(double share) const {
  if (values_.empty()) return 0.0;
  std::vector<double> values = values_;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size())) - 1);
  const auto place = values.begin() + std::clamp<std::ptrdiff_t>(at, 0, static_cast<std::ptrdiff_t>(last));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double Divergence::same_top_error() const {
  return n() > 1 ? std::sqrt(same_top() * (1 - same_top()) / static_cast<double>(n() - 1)) : 0.0;
}

std::string Divergence::text() const {
  const auto plus_minus = [](const std::string& value, const std::string& error) {
    return value + " +/- " + error + "\n";
  };
  return "PPL           " + plus_minus(fixed(model_.perplexity(), 4), fixed(model_.error(), 5)) +
         "PPL of base   " + plus_minus(fixed(base_.perplexity(), 4), fixed(base_.error(), 5)) +
         "ln PPL ratio  " + plus_minus(scientific(difference_.mean()), scientific(difference_.mean_error())) +
         "mean KLD      " + plus_minus(scientific(kl_.mean()), scientific(kl_.mean_error())) +
         "median KLD    " + scientific(quantile(0.5)) + "\n" + "99 % KLD      " + scientific(quantile(0.99)) +
         "\n" + "max KLD       " + scientific(quantile(1.0)) + "\n" + "same top      " +
         plus_minus(fixed(100 * same_top(), 3), fixed(100 * same_top_error(), 3) + " %");
}

void Divergence::report(Json& out) const {
  out["n_scored"] = n();
  out["ppl"] = model_.perplexity();
  out["ppl_error"] = model_.error();
  out["ppl_base"] = base_.perplexity();
  out["ppl_base_error"] = base_.error();
  out["ln_ppl_ratio"] = difference_.mean();
  out["ln_ppl_ratio_error"] = difference_.mean_error();
  out["kld_mean"] = kl_.mean();
  out["kld_mean_error"] = kl_.mean_error();
  out["kld_median"] = quantile(0.5);
  out["kld_99"] = quantile(0.99);
  out["kld_max"] = quantile(1.0);
  out["same_top"] = same_top();
  out["same_top_error"] = same_top_error();
}

}  // namespace cli
