#include "lib/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace runnel {
namespace {

// The pair whose wavelength fits `rotations` times into the original context (YaRN, section 3.2).
double pair_with_rotations(const RopeParams& p, double rotations) {
  return static_cast<double>(p.n_rot) * std::log(p.n_ctx_original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(p.base));
}

// 1 where a pair turns fast and keeps its frequency, 0 where it is slow and interpolated (YaRN, eq. 18).
double yarn_ramp(const RopeParams& p, std::size_t pair) {
  const double last = static_cast<double>(p.n_rot) - 1;
  const double low = std::max(0.0, std::floor(pair_with_rotations(p, p.beta_fast)));
  const double high = std::min(last, std::ceil(pair_with_rotations(p, p.beta_slow)));
  const double y = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
  return 1 - std::clamp(y, 0.0, 1.0);
}

}  // namespace

Rope::Rope(const RopeParams& p) : frequencies_(p.n_rot / 2), magnitude_(p.magnitude) {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double factor = p.factors.empty() ? 1.0 : static_cast<double>(p.factors[i]);
    const double own =
        std::pow(p.base, -2.0 * static_cast<double>(i) / static_cast<double>(p.n_rot)) / factor;
    const double keep = p.yarn ? yarn_ramp(p, i) : 0.0;
    frequencies_[i] = own * p.scale * (1 - keep) + own * keep;
  }
}

void Rope::angles(std::int64_t position, float* cos, float* sin) const noexcept {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    cos[i] = static_cast<float>(magnitude_ * std::cos(angle));
    sin[i] = static_cast<float>(magnitude_ * std::sin(angle));
  }
}

}  // namespace runnel
