// What the scale of a group of numbers is made of.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

namespace runnel::quant {

// The largest |x[i]|; 0 for none. A NaN does not count.
inline float max_magnitude(const float* x, std::size_t n) noexcept {
  float max = 0.0f;
  for (std::size_t i = 0; i < n; ++i) max = std::max(max, std::fabs(x[i]));
  return max;
}

}  // namespace runnel::quant
