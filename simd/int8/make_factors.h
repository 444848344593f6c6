// Numbers become integers of 16 bits with one scale, the factors that int8 weights, keys and values are
// multiplied by.
#pragma once
#include "simd/int8/scaling.h"
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// The largest of the bits of |x[j]|: NaN > infinity > all others.
inline std::uint32_t max_magnitude_bits(const float* x, size_t n) noexcept {
  const auto bits = [](F32 some) { return bits_as<std::int32_t>(some) & I32(0x7fffffff); };
  I32 largest(0);
  size_t j = 0;
  for (; j + lanes <= n; j += lanes) largest = xsimd::max(largest, bits(load(x + j)));
  if (j < n) largest = xsimd::max(largest, bits(load_n(x + j, n - j)));
  return static_cast<std::uint32_t>(max(largest));
}

// put(j, factors) for `lanes` of them from j on, zeros from n on: x[j] = factor j * scale, to the nearest,
// -factor_steps <= factor <= factor_steps. Returns the scale.
template <class Put>
inline float make_factors(const float* x, size_t n, Put put) noexcept {
  const Scaling scaling = scaling_up_to(max_magnitude_bits(x, n), static_cast<float>(factor_steps));
  const auto round = [&](F32 some) {
    return scaling.is_empty() ? I32(0) : to_nearest(some * F32(scaling.inverse));
  };
  size_t j = 0;
  for (; j + lanes <= n; j += lanes) put(j, round(load(x + j)));
  if (j < n) put(j, round(load_n(x + j, n - j)));
  return scaling.scale;
}

// factor = 256 high + low, of signed bytes: the lowest byte of each int32 is the high one's, and its own the
// low one's.
inline I32 high_bytes(I32 factors) noexcept { return (factors + 128) >> 8; }

}  // namespace
}  // namespace runnel::simd
