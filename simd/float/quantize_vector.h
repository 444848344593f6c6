// One vector into int8 with one scale: a cached key or value. Plain loops, which compilers turn into vectors
// of the instruction set at hand; the scalar row uses the same.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace runnel::simd {
namespace {

float quantize_vector(std::int8_t* y, std::size_t side, std::size_t y_stride, const float* x,
                      std::size_t n) noexcept {
  constexpr std::uint32_t infinity_bits = 0x7f800000;
  const auto to = [=](std::size_t i) -> std::int8_t& { return y[i / side * y_stride + i % side]; };
  constexpr float least_max = 0x1p-100f;  // below it 127 / max would be infinite
  // Magnitudes as integers, which order like the numbers and put NaN above infinity.
  std::uint32_t max_bits = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff;
    max_bits = bits > max_bits ? bits : max_bits;
  }
  const float max = std::bit_cast<float>(max_bits);
  if (max_bits >= infinity_bits || max < least_max) {
    for (std::size_t i = 0; i < n; ++i) to(i) = 0;
    return max_bits >= infinity_bits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  // Adding 1.5 2^23 leaves no bits behind the point: the sum is rounded to nearest even.
  constexpr float round = 12582912.0f;
  const float inverse = 127.0f / max;
  constexpr std::size_t part = 64;
  for (std::size_t begin = 0; begin < n; begin += part) {
    const std::size_t size = std::min(part, n - begin);
    std::int8_t codes[part];
    for (std::size_t i = 0; i < size; ++i)
      codes[i] =
          static_cast<std::int8_t>(static_cast<std::int32_t>((x[begin + i] * inverse + round) - round));
    for (std::size_t i = 0; i < size; ++i) to(begin + i) = codes[i];
  }
  return max / 127.0f;
}

}  // namespace
}  // namespace runnel::simd
