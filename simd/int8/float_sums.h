// Sums of products that end as floats, for cores that convert integers in the units they multiply with.
// Beginning with the bits of 1.5 * 2^23, where floats are 1 apart, an integer ends with those of 1.5 * 2^23
// plus itself, and all that is left to do is one subtraction. It is exact for |sum| < 2^22, and the sum of a
// block is at most 32 * 128 * 127.
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr std::int32_t float_sums_begin = 0x4b400000;

inline F32 float_sums_end(F32 sums) noexcept { return sums - F32(12582912.0f); }

}  // namespace
}  // namespace runnel::simd
