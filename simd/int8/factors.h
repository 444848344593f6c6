// What meets int8 keys and values in integer products: a query, or weights over keys, as numbers of 16 bits
// with one scale. Instruction sets multiply them in one of two ways, a class each:
//
//   numbers.put(j, x)       keeps number j, -factor_steps <= x <= factor_steps
//   numbers.finish(n)       after n of them: zeros up to a whole four
//   tile_rows               rows of numbers that meet a line of cached bytes at a time
//   multiply(dots, rows, n_steps, line)
//                           dots[i][v] = sum of row i's numbers times the bytes of vector v, where line(step)
//                           is [block_keys][dot_bytes] of them; exact
#pragma once
#include <bit>

#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// Numbers that are summed over at most, so that no sum leaves 32 bits: 256 * factor_steps * 128 < 2^31.
constexpr size_t max_factors = 256;
constexpr size_t line_vecs = block_keys / lanes;  // of int32

// x[j] = number j * scale, to the nearest.
template <class Numbers>
struct Factors {
  Numbers numbers;
  float scale;

  void set(const float* x, size_t n) noexcept {
    constexpr std::uint32_t infinity_bits = 0x7f800000;
    constexpr float least_max = 0x1p-100f;  // below it factor_steps / max would be infinite
    constexpr float round = 12582912.0f;    // 1.5 2^23: added to it, nothing is left behind the point
    std::uint32_t max_bits = 0;
    for (size_t j = 0; j < n; ++j) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[j]) & 0x7fffffff;
      max_bits = bits > max_bits ? bits : max_bits;
    }
    const float max = std::bit_cast<float>(max_bits);
    const bool is_finite = max_bits < infinity_bits;
    const bool none = !is_finite || max < least_max;
    const float inverse = none ? 0.0f : static_cast<float>(factor_steps) / max;
    scale = none ? 0.0f : max / static_cast<float>(factor_steps);
    if (!is_finite) scale = std::numeric_limits<float>::quiet_NaN();
    for (size_t j = 0; j < n; ++j) {
      const float rounded = none ? 0.0f : (x[j] * inverse + round) - round;
      numbers.put(j, static_cast<std::int32_t>(rounded));
    }
    numbers.finish(n);
  }
};

}  // namespace
}  // namespace runnel::simd
