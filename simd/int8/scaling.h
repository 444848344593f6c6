// One scale for a row of numbers that become integers. Plain loops, which compilers turn into vectors of the
// instruction set at hand; the scalar row uses the same.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "quant/activations.h"

namespace runnel::simd {
namespace {

// Of |x| < 2^22: adding 1.5 2^23 leaves no bits behind the point.
inline std::int32_t round_to_even(float x) noexcept {
  constexpr float round = 12582912.0f;
  return static_cast<std::int32_t>((x + round) - round);
}

// x = integer * scale, integer = x * inverse to the nearest, ties to even.
struct Scaling {
  float scale, inverse;

  // All integers are 0: scale is 0, or NaN where a number is not finite.
  bool is_empty() const noexcept { return inverse == 0.0f; }
};

// For integers up to `most`, the largest of them at the largest |x|, whose bits max_bits are. As integers
// magnitudes order like the numbers, with NaN above infinity.
inline Scaling scaling_up_to(std::uint32_t max_bits, float most) noexcept {
  constexpr std::uint32_t infinity_bits = 0x7f800000;
  if (max_bits >= infinity_bits) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  const float max = std::bit_cast<float>(max_bits);
  if (max < quant::i8_least_max) return {0.0f, 0.0f};
  return {max / most, most / max};
}

// Of n numbers.
inline Scaling scaling_of(const float* x, std::size_t n, float most) noexcept {
  std::uint32_t max_bits = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff;
    max_bits = bits > max_bits ? bits : max_bits;
  }
  return scaling_up_to(max_bits, most);
}

}  // namespace
}  // namespace runnel::simd
