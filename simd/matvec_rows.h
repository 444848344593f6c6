// The rows of a product with one vector. Bound by memory: several rows at a time keep several streams of
// reads in flight, and each part of x that is loaded serves all of them. The rows are as far from each other
// as can be, so that each stream goes on from row to row and never jumps.
#pragma once
#include <type_traits>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t matvec_rows = 4;
// How far ahead of the reads (tests/bench/experiments.md). On AVX2 about what a core has in flight: further
// ahead, lines wait for each other and F16 rows are read at 0.75 of the speed (Zen 4).
constexpr size_t prefetch_bytes = lanes == 8 ? 512 : 1536;

// Two accumulators for each row.
using RowSums = F32[matvec_rows][2];

inline void clear(RowSums& sums) noexcept {
  for (auto& pair : sums) pair[0] = pair[1] = F32(0.0f);
}
// y[r * apart], r < n_rows.
template <size_t n_rows>
inline void store_row_sums(float* y, size_t apart, const RowSums& sums) noexcept {
  float all[matvec_rows];
  store4(all, sum4(sums[0][0] + sums[0][1], sums[1][0] + sums[1][1], sums[2][0] + sums[2][1],
                   sums[3][0] + sums[3][1]));
  for (size_t r = 0; r < n_rows; ++r) y[r * apart] = all[r];
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
