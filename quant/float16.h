// Conversions between binary32 and the two 16-bit float formats, on bits alone: the reference for every
// kernel. f16 is IEEE 754 binary16 (1 sign, 5 exponent, 10 fraction bits); bf16 is the upper half of a
// binary32. All of them round to nearest, ties to even; a NaN stays a (quiet) NaN.
#pragma once
#include <bit>
#include <cstdint>

#include "quant/always_inline.h"

namespace runnel::quant {

constexpr float f16_max = 65504.0f;  // the largest finite one

RUNNEL_ALWAYS_INLINE float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

RUNNEL_ALWAYS_INLINE std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = is_nan ? bits | 0x00400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(rounded >> 16);
}

RUNNEL_ALWAYS_INLINE float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x0400u) {  // zero, subnormal: a multiple of 2^-24, exact in binary32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

RUNNEL_ALWAYS_INLINE std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t result = 0x7c00u;  // infinity
  if (magnitude > 0x7f800000u) {   // NaN: its upper bits, quiet
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude <
             0x38800000u) {  // below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else if (magnitude < 0x477ff000u) {  // below 65520, from where on the nearest is infinity
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    result = (rounded - ((127u - 15u) << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace runnel::quant
