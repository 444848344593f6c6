#include "lib/quantize/feedback.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace runnel {
namespace {

constexpr std::size_t group = feedback_group;
constexpr double damping =
    0.01;  // of the mean diagonal: what the text did not show is not believed to be zero

// With H = M M^T, M upper triangular, U = M^-1 is the Cholesky factor of inv(H) = U^T U that GPTQ works with.
// Replaces the upper triangle of h [n, n] by that of M; false when H is not positive definite.
bool factorise(double* h, std::size_t n) {
  for (std::size_t j = n; j-- > 0;) {
    double diagonal = h[j * group + j];
    for (std::size_t k = j + 1; k < n; ++k) diagonal -= h[j * group + k] * h[j * group + k];
    if (!(diagonal > 0) || !std::isfinite(diagonal)) return false;
    const double root = std::sqrt(diagonal);
    h[j * group + j] = root;
    for (std::size_t i = 0; i < j; ++i) {
      double sum = h[i * group + j];
      for (std::size_t k = j + 1; k < n; ++k) sum -= h[i * group + k] * h[j * group + k];
      h[i * group + j] = sum / root;
    }
  }
  return true;
}

// The upper triangle of m [n, n] becomes that of its inverse.
void invert(double* m, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    // Column j of the inverse: rows before j, by columns already inverted.
    for (std::size_t i = 0; i < j; ++i) {
      double sum = 0;
      for (std::size_t k = i; k < j; ++k) sum += m[i * group + k] * m[k * group + j];
      m[i * group + j] = -sum / m[j * group + j];
    }
    m[j * group + j] = 1 / m[j * group + j];
  }
}

// shares [128, 128] of one group of n inputs, zeros if its moments tell nothing. h: room for [128, 128].
void find_shares(float* shares, const float* sums, std::size_t n_tokens, const float* factors, std::size_t n,
                 double* h) {
  std::fill_n(h, group * group, 0.0);
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) {
      double moment = static_cast<double>(sums[i * group + j]) / static_cast<double>(n_tokens);
      if (factors) moment /= static_cast<double>(factors[i]) * static_cast<double>(factors[j]);
      h[i * group + j] = moment;
      if (i == j) mean += moment / static_cast<double>(n);
    }
  for (std::size_t i = 0; i < n; ++i) h[i * group + i] += damping * mean;
  std::fill_n(shares, group * group, 0.0f);
  if (!factorise(h, n)) return;
  invert(h, n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      shares[i * group + j] = static_cast<float>(h[i * group + j] / h[i * group + i]);
  const bool is_finite =
      std::all_of(shares, shares + group * group, [](float share) { return std::isfinite(share); });
  if (!is_finite) std::fill_n(shares, group * group, 0.0f);
}

// Errors of weights near the largest float may add up to more, and two infinities to no number.
float finite(float x) {
  constexpr float most = std::numeric_limits<float>::max();
  return std::isnan(x) ? 0.0f : std::clamp(x, -most, most);
}

}  // namespace

std::vector<double> SecondMoments::rms() const {
  std::vector<double> result(n_cols);
  for (std::size_t c = 0; c < n_cols && n_tokens > 0; ++c) {
    const std::size_t i = c % group;
    const auto sum = static_cast<double>(sums[(c / group * group + i) * group + i]);
    result[c] = std::sqrt(sum / static_cast<double>(n_tokens));
  }
  return result;
}

Feedback::Feedback(Team& team, const SecondMoments& moments, std::span<const float> factors)
    : n_cols_(moments.n_cols), shares_(SecondMoments::n_sums(moments.n_cols)) {
  const std::size_t n_groups = shares_.size() / (group * group);
  std::vector<double> scratch(team.size() * group * group);
  team.run([&](Thread& thread) {
    const Range own = thread.split(n_groups);
    double* const h = scratch.data() + thread.index() * group * group;
    for (std::size_t g = own.begin; g < own.end; ++g)
      find_shares(shares_.data() + g * group * group, moments.sums.data() + g * group * group,
                  moments.n_tokens, factors.empty() ? nullptr : factors.data() + g * group,
                  std::min(group, n_cols_ - g * group), h);
  });
}

void Feedback::quantize_row(std::int8_t* codes, std::uint16_t* scales, float* w,
                            quant::VariantI8 variant) const noexcept {
  const std::size_t scale_group = quant::i8_group(variant);
  for (std::size_t begin = 0; begin < n_cols_; begin += scale_group)
    scales[begin / scale_group] =
        quant::group_scale_i8(w + begin, std::min(scale_group, n_cols_ - begin), variant);
  for (std::size_t begin = 0; begin < n_cols_; begin += group) {
    const float* shares = shares_.data() + begin * group;
    const std::size_t n = std::min(group, n_cols_ - begin);
    for (std::size_t i = 0; i < n; ++i) {
      const float scale = quant::scale_value_i8(scales[(begin + i) / scale_group], variant);
      w[begin + i] = finite(w[begin + i]);
      const float exact = scale > 0 ? w[begin + i] / scale : 0.0f;
      const float code = std::clamp(std::nearbyint(exact), -quant::int8_most, quant::int8_most);
      codes[begin + i] = static_cast<std::int8_t>(code);
      const float error = finite(w[begin + i] - code * scale);
      for (std::size_t j = i + 1; j < n; ++j) w[begin + j] -= error * shares[i * group + j];
    }
  }
}

}  // namespace runnel
