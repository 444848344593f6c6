#include "lib/quantize/balance.h"

#include <algorithm>
#include <cmath>

namespace runnel {
namespace {

constexpr double dead_zone = 4.0;  // balancing channels within it was measured to gain nothing
constexpr double max_factor = 0x1p20;

}  // namespace

void ColumnSizes::add(Team& team, const float* rows, std::size_t n, std::span<const float> factors) {
  const std::size_t n_cols = sums_.size();
  row_weights_.assign(n, 0.0);
  team.run([&](Thread& thread) {
    const Range own_rows = thread.split(n);
    for (std::size_t r = own_rows.begin; r < own_rows.end; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < n_cols; ++c) {
        const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[c]);
        const double w = static_cast<double>(rows[r * n_cols + c]) * factor;
        sum += w * w;
      }
      row_weights_[r] = sum > 0 ? static_cast<double>(n_cols) / sum : 0.0;
    }
    thread.barrier();
    const Range own_cols = thread.split(n_cols, 16);
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t c = own_cols.begin; c < own_cols.end; ++c) {
        const auto w = static_cast<double>(rows[r * n_cols + c]);
        sums_[c] += w * w * row_weights_[r];
      }
  });
  n_rows_ += static_cast<std::size_t>(
      std::count_if(row_weights_.begin(), row_weights_.end(), [](double weight) { return weight > 0; }));
}

std::vector<double> ColumnSizes::rms() const {
  std::vector<double> result(sums_.size());
  for (std::size_t c = 0; c < result.size() && n_rows_ > 0; ++c)
    result[c] = std::sqrt(sums_[c] / static_cast<double>(n_rows_));
  return result;
}

std::vector<float> balance_factors(std::span<const double> columns, std::span<const double> inputs) {
  const std::size_t n = columns.size();
  std::vector<double> ratios(n), valid;  // 0: not to be touched
  for (std::size_t c = 0; c < n; ++c) {
    const double ratio = inputs.empty() ? 1.0 / columns[c] : std::sqrt(inputs[c] / columns[c]);
    if (!std::isfinite(ratio) || ratio <= 0) continue;
    ratios[c] = ratio;
    valid.push_back(ratio);
  }
  if (valid.empty()) return {};
  const auto middle = valid.begin() + static_cast<std::ptrdiff_t>(valid.size() / 2);
  std::nth_element(valid.begin(), middle, valid.end());
  const double median = *middle;

  std::vector<float> factors(n, 1.0f);
  bool is_changed = false;
  for (std::size_t c = 0; c < n; ++c) {
    const double factor = ratios[c] / median;
    if (ratios[c] == 0 || (factor > 1 / dead_zone && factor < dead_zone)) continue;
    factors[c] = static_cast<float>(std::clamp(factor, 1 / max_factor, max_factor));
    is_changed = true;
  }
  return is_changed ? factors : std::vector<float>();
}

}  // namespace runnel
