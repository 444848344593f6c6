// The rows of a product with one vector. Bound by memory: several rows at a time keep several streams of
// reads in flight, and each part of x that is loaded serves all of them. The rows are as far from each other
// as can be, so that each stream goes on from row to row and never jumps.
#pragma once
#include <algorithm>
#include <type_traits>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t matvec_rows = 4;
// How far ahead of the reads (tests/bench/experiments.md). On AVX2 about what a core has in flight: further
// ahead, lines wait for each other and F16 rows are read at 0.75 of the speed (Zen 4).
constexpr size_t prefetch_bytes = lanes == 8 ? 512 : 1536;

// Rows so long that four of them push the vector, which each row needs again, out of an L1 cache of 32 KB.
// Twice as many at a time read it half as often: few lines of so many streams are in flight, and what comes
// after them waits in the L2 cache (Zen 4, tests/bench/experiments.md).
constexpr size_t wide_rows = 2 * matvec_rows;
constexpr size_t wide_ahead_l2 = 2048;
constexpr bool is_wide(size_t vector_bytes, size_t row_bytes) noexcept {
  return vector_bytes + matvec_rows * row_bytes > 32 * 1024;
}

// y[r * apart] = the sum of sums[r], r < n_rows.
template <size_t n_rows>
inline void store_sums(float* y, size_t apart, const F32 (&sums)[n_rows]) noexcept {
  RUNNEL_UNROLL
  for (size_t r = 0; r < n_rows; r += 4) {
    const auto sum = [&](size_t i) { return i < n_rows ? sums[i] : F32(0.0f); };
    float four[4];
    store4(four, sum4(sum(r), sum(r + 1), sum(r + 2), sum(r + 3)));
    for (size_t i = r; i < std::min(r + 4, n_rows); ++i) y[i * apart] = four[i - r];
  }
}

// rows(r, apart, n) for rows r < n_rows: n = at_once of them, `apart` apart from r on; for those left over
// n = matvec_rows, and then 1.
template <size_t at_once = matvec_rows, class Rows>
inline void for_each_rows(size_t n_rows, Rows rows) noexcept {
  const size_t apart = n_rows / at_once;
  for (size_t r = 0; r < apart; ++r) rows(r, apart, std::integral_constant<size_t, at_once>());
  if constexpr (at_once > 1) {
    const size_t done = apart * at_once;
    for_each_rows<(at_once > matvec_rows ? matvec_rows : 1)>(
        n_rows - done, [&](size_t r, size_t far, auto n) { rows(done + r, far, n); });
  }
}

}  // namespace
}  // namespace runnel::simd
