// What meets int8 keys and values in integer products: a query, or weights over keys, as numbers of 16 bits
// with one scale. Instruction sets multiply them in one of two ways, a class each:
//
//   numbers.put(j, x)       keeps number j, -factor_steps <= x <= factor_steps
//   numbers.finish(n, sum)  after n of them, which add up to sum: zeros up to a whole four
//   line_rows               rows of numbers that meet a line of cached bytes at a time
//   wide_rows, wide_lines   up to wide_rows rows meet wide_lines neighbouring lines at a time, which
//                           reads the lines in order
//   multiply(dots, rows, n_steps, line)
//                           dots[i][v] = sum of row i's numbers times the bytes of vector v, where line(step)
//                           is one or more times [block_keys][dot_bytes] of them; exact
#pragma once
#include "simd/int8/scaling.h"
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// Numbers that are summed over at most, so that no sum leaves 32 bits: 256 * factor_steps * 128 < 2^31, and
// with 128 added to what is cached 256 * (127 * 256) * 255 too.
constexpr size_t max_factors = 256;
constexpr size_t line_vecs = block_keys / lanes;  // of int32

// x[j] = number j * scale, to the nearest.
template <class Numbers>
struct Factors {
  Numbers numbers;
  float scale;

  void set(const float* x, size_t n) noexcept {
    const Scaling scaling = scaling_of(x, n, static_cast<float>(factor_steps));
    scale = scaling.scale;
    std::int32_t sum = 0;
    for (size_t j = 0; j < n; ++j) {
      const std::int32_t number = scaling.integer(x[j]);
      numbers.put(j, number);
      sum += number;
    }
    numbers.finish(n, sum);
  }
};

}  // namespace
}  // namespace runnel::simd
