// What meets int8 keys and values in integer products: a query, or weights over keys, as numbers of 16 bits
// with one scale. Instruction sets multiply them in one of three ways, a class each:
//
//   numbers.put(j, x)       keeps numbers j to j + lanes, -factor_steps <= x <= factor_steps; the last of
//                           them may be zeros beyond the end
//   numbers.finish(sum)     after all of them, which add up to sum
//   line_rows               rows of numbers that meet a line of cached bytes at a time
//   wide_rows, wide_lines   up to wide_rows rows meet wide_lines neighbouring lines at a time, which
//                           reads the lines in order, and the rows seldom
//   multiply(dots, rows, n_steps, line)
//                           dots[i][v] = sum of row i's numbers times the bytes of vector v, where line(step)
//                           is one or more times [block_keys][dot_bytes] of them; exact
#pragma once
#include "simd/int8/make_factors.h"

namespace runnel::simd {
namespace {

// Numbers that are summed over at most, so that no sum leaves 32 bits: 256 * factor_steps * 128 < 2^31, and
// with 128 added to what is cached 256 * (127 * 256) * 255 too.
constexpr size_t max_factors = 256;
constexpr size_t line_vecs = block_keys / lanes;  // of int32

// The numbers of a row.
template <class Numbers>
struct Factors {
  Numbers numbers;
  float scale;

  void set(const float* x, size_t n) noexcept {
    I32 sums(0);
    scale = make_factors(x, n, [&](size_t j, I32 some) {
      numbers.put(j, some);
      sums += some;
    });
    numbers.finish(sum(sums));
  }
};

}  // namespace
}  // namespace runnel::simd
