// The rows of a product with one vector. Bound by memory: several rows at a time keep several streams of
// reads in flight, and each part of x that is loaded serves all of them. The rows are as far from each other
// as can be, so that each stream goes on from row to row and never jumps.
#pragma once
#include <type_traits>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t matvec_rows = 4;
// How far ahead of the reads (tests/bench/experiments.md). On AVX2 about what a core has under way: asked for
// further ahead, lines wait for each other and F16 rows come at 0.75 of the pace (Zen 4). With AVX-512 (Zen
// 5) one core gets Q8_0 rows the faster the further, two that share what memory gives do not from 2 KB on.
constexpr size_t prefetch_bytes = lanes == 8 ? 512 : 1536;
constexpr size_t prefetch_bytes_q8_0 = lanes == 16 ? 2048 : prefetch_bytes;

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

// rows(r, apart, n) for all rows: n = matvec_rows of them, `apart` apart from r on, or a single one.
template <class Rows>
inline void for_each_rows(size_t n_rows, Rows rows) noexcept {
  const size_t apart = n_rows / matvec_rows;
  for (size_t r = 0; r < apart; ++r) rows(r, apart, std::integral_constant<size_t, matvec_rows>());
  for (size_t r = apart * matvec_rows; r < n_rows; ++r) rows(r, 0, std::integral_constant<size_t, 1>());
}

// What for_each_block() reads before what it asks for has come: how the streams of Q8_0 rows begin. A piece
// of the rows begins anew each time (lib/parallel.h).
inline void fetch_first_blocks(const quant::BlockQ8_0* w, size_t n_rows, size_t row_blocks) noexcept {
  const size_t apart = n_rows / matvec_rows * row_blocks;
  for (size_t i = 0; i < prefetch_bytes_q8_0; i += line_bytes) {
    for (size_t r = 0; r < matvec_rows; ++r) prefetch(reinterpret_cast<const std::byte*>(w + r * apart), i);
  }
}

// add(blocks, b, parity) for all blocks of n_rows Q8_0 rows, `apart` rows of row_blocks from each other, from
// w on: blocks[r] is number b of row r, and parity, 0 or 1, the accumulator that is its turn.
template <size_t n_rows, class Add>
inline void for_each_block(const quant::BlockQ8_0* w, size_t apart, size_t row_blocks, size_t n_blocks,
                           Add add) noexcept {
  const auto add_block = [&](size_t b, size_t parity) {
    const quant::BlockQ8_0* blocks[n_rows];
    for (size_t r = 0; r < n_rows; ++r) {
      blocks[r] = &w[r * apart * row_blocks + b];
      prefetch(blocks[r], prefetch_bytes_q8_0 / sizeof *blocks[r]);
    }
    add(blocks, b, parity);
  };
  size_t b = 0;
  for (; b + 2 <= n_blocks; b += 2) {
    add_block(b, 0);
    add_block(b + 1, 1);
  }
  if (b < n_blocks) add_block(b, 0);
}

}  // namespace
}  // namespace runnel::simd
