// Q8_0 rows times one vector. The vector becomes numbers of 16 bits with a scale for each block of 32, and a
// block's products add up exactly in int32: 32 * 128 * factor_steps < 2^31. Making floats of the weights
// would take longer than reading them. How numbers and weights are multiplied is a class:
//
//   inputs.put(j, x)               keeps number j < 32, -factor_steps <= x <= factor_steps
//   inputs.multiply(blocks, take)  take(r, dots): sum of the numbers times those of *blocks[r], still spread
//                                  over the lanes
#pragma once
#include <algorithm>

#include "simd/int8/make_factors.h"
#include "simd/matvec_rows.h"

namespace runnel::simd {
namespace {

#if defined(__x86_64__)
// Converts three numbers of qs, too: saves a move.
inline float scale_of(const quant::BlockQ8_0& block) noexcept {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&block))));
}
#elif defined(__aarch64__)
inline float scale_of(const quant::BlockQ8_0& block) noexcept {
  __fp16 scale = 0;
  __builtin_memcpy(&scale, &block.d, sizeof scale);
  return scale;
}
#endif

// The part of a vector that is multiplied at a time.
template <class Inputs>
struct InputsQ8_0 {
  static constexpr size_t max_blocks = 512;

  size_t n_blocks;
  Inputs blocks[max_blocks];
  float scales[max_blocks];

  void set(const float* x, size_t n) noexcept {
    n_blocks = n;
    for (size_t b = 0; b < n; ++b) set_block(b, x + b * quant::BlockQ8_0::size);
  }

 private:
  void set_block(size_t b, const float* x) noexcept {
    scales[b] = make_factors(x, quant::BlockQ8_0::size, [&](size_t j, I32 some) { blocks[b].put(j, some); });
  }
};

// With AVX-512 (Zen 5) one core gets Q8_0 rows the faster the further ahead it prefetches, two that share
// what memory gives do not from 2 KB on (tests/bench/experiments.md).
constexpr size_t prefetch_bytes_q8_0 = lanes == 16 ? 2048 : prefetch_bytes;

// What for_each_block() reads before what it prefetches has come: how the streams of rows begin. A piece of
// the rows begins anew each time (lib/system/parallel.h).
template <size_t at_once, size_t ahead>
inline void fetch_first_blocks(const quant::BlockQ8_0* w, size_t n_rows, size_t row_blocks) noexcept {
  const size_t apart = n_rows / at_once * row_blocks;
  for (size_t i = 0; i < ahead; i += line_bytes) {
    for (size_t r = 0; r < at_once; ++r) prefetch(reinterpret_cast<const std::byte*>(w + r * apart), i);
  }
}

// add(blocks, b, parity) for all blocks of n_rows rows, `apart` rows of row_blocks from each other, from w
// on: blocks[r] is number b of row r, and parity, 0 or 1, the accumulator that is its turn. Prefetches what
// lies `ahead` bytes on, and ahead_l2 bytes on (if not 0) into the L2 cache.
template <size_t n_rows, size_t ahead, size_t ahead_l2 = 0, class Add>
inline void for_each_block(const quant::BlockQ8_0* w, size_t apart, size_t row_blocks, size_t n_blocks,
                           Add add) noexcept {
  const auto add_block = [&](size_t b, size_t parity) {
    const quant::BlockQ8_0* blocks[n_rows];
    for (size_t r = 0; r < n_rows; ++r) {
      blocks[r] = &w[r * apart * row_blocks + b];
      const auto* const bytes = reinterpret_cast<const std::byte*>(blocks[r]);
      prefetch(bytes, ahead);
      if (ahead_l2 != 0 && parity == 0) prefetch_l2(bytes + ahead_l2);
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

// y[r * apart] = w[r * apart] . x, or that much more, r < n_rows;  w: rows of row_blocks. The order of the
// additions in a row does not depend on n_rows.
template <size_t n_rows, size_t ahead, class Inputs>
inline void dot_rows_i16(float* y, size_t apart, const quant::BlockQ8_0* w, size_t row_blocks,
                         const InputsQ8_0<Inputs>& x, bool add) noexcept {
  F32 sums[n_rows][2];
  for (auto& pair : sums) pair[0] = pair[1] = F32(0.0f);
  const auto add_products = [&](const auto& blocks, size_t b, size_t parity) {
    x.blocks[b].multiply(blocks, [&](size_t r, I32 dots) {
      const F32 scale(scale_of(*blocks[r]) * x.scales[b]);
      sums[r][parity] = fmadd(to_float(dots), scale, sums[r][parity]);
    });
  };
  for_each_block<n_rows, ahead>(w, apart, row_blocks, x.n_blocks, add_products);
  F32 both[n_rows];
  RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) both[r] = sums[r][0] + sums[r][1];
  float part[n_rows];
  store_sums(part, 1, both);
  for (size_t r = 0; r < n_rows; ++r) y[r * apart] = add ? y[r * apart] + part[r] : part[r];
}

// dot(n, y, apart, w, part, add) for n of the rows, at_once of them at a time, by what fits in `part` of the
// vector: like dot_rows_i16().
template <class Inputs, size_t at_once, size_t ahead, class Dot>
inline void multiply_by_parts(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t row_blocks,
                              const float* x, Dot dot) noexcept {
  fetch_first_blocks<at_once, ahead>(w, n_rows, row_blocks);
  InputsQ8_0<Inputs> part;
  size_t begin = 0;
  do {  // once where there are no columns: all sums are zero
    part.set(x + begin * quant::BlockQ8_0::size, std::min(row_blocks - begin, part.max_blocks));
    for_each_rows<at_once>(n_rows, [&](size_t r, size_t apart, auto n) {
      dot(n, y + r, apart, w + r * row_blocks + begin, part, begin != 0);
    });
    begin += part.n_blocks;
  } while (begin < row_blocks);
}

template <class Inputs, size_t ahead = prefetch_bytes_q8_0>
void matvec_q8_0_i16(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols,
                     const float* x) noexcept {
  const size_t row_blocks = n_cols / quant::BlockQ8_0::size;
  multiply_by_parts<Inputs, matvec_rows, ahead>(
      y, w, n_rows, row_blocks, x,
      [=](auto n, float* sums, size_t apart, const quant::BlockQ8_0* rows, const auto& part, bool add) {
        dot_rows_i16<n, ahead>(sums, apart, rows, row_blocks, part, add);
      });
}

}  // namespace
}  // namespace runnel::simd
