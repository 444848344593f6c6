// int8 weights become bf16, scales and all, for tiles of AMX: from panels (quant/i8.h) or from Q8_0 rows as a
// file has them.
#pragma once
#include <algorithm>
#include <cstring>

#include "simd/int8/squares.h"
#include "simd/int8/tile_product.h"
#include "simd/int8/tile_registers.h"

namespace runnel::simd {
namespace {

// A block of 16 rows as the tile instruction wants it: pair k of inputs, row r.
using TileOfWeights = BF16[quant::i8_block / 2][panel_rows][2];
static_assert(sizeof(TileOfWeights) == tile_rows * tile_row_bytes);

// Bytes (2 pair, 2 pair + 1) of rows [8 half, 8 half + 8) of a step, each the highest of four.
template <size_t pair, size_t half>
inline __m512i highest_bytes(__m512i step) noexcept {
  alignas(64) static constexpr auto places = [] {
    struct {
      std::uint8_t of[64] = {};
    } at;
    for (size_t i = 0; i < lanes; ++i)
      at.of[4 * i + 3] =
          static_cast<std::uint8_t>((8 * half + i / 2) * quant::i8_step_cols + 2 * pair + i % 2);
    return at;
  }();
  return _mm512_maskz_permutexvar_epi8(0x8888888888888888, _mm512_load_si512(places.of), step);
}

// The scales of rows [8 half, 8 half + 8), each twice, for numbers 2^24 times too large.
template <size_t half>
inline F32 twice(F32 scales) noexcept {
  constexpr int h = 8 * half;
  const __m512i rows = _mm512_setr_epi32(h, h, h + 1, h + 1, h + 2, h + 2, h + 3, h + 3, h + 4, h + 4, h + 5,
                                         h + 5, h + 6, h + 6, h + 7, h + 7);
  return F32(_mm512_permutexvar_ps(rows, scales)) * F32(0x1p-24f);
}

// Some weights of 16 rows, with their scales: step after step, four inputs each.
class StepsInBf16 {
 public:
  StepsInBf16(TileOfWeights& to, F32 scales) noexcept
      : to_(to), low_(twice<0>(scales)), high_(twice<1>(scales)) {}
  void widen(size_t step, __m512i bytes) const noexcept {
    store_pair(2 * step, highest_bytes<0, 0>(bytes), highest_bytes<0, 1>(bytes));
    store_pair(2 * step + 1, highest_bytes<1, 0>(bytes), highest_bytes<1, 1>(bytes));
  }

 private:
  void store_pair(size_t at, __m512i low_bytes, __m512i high_bytes) const noexcept {
    const __m512bh pair =
        _mm512_cvtne2ps_pbh(to_float(I32(high_bytes)) * high_, to_float(I32(low_bytes)) * low_);
    std::memcpy(to_[at], &pair, sizeof pair);
  }
  TileOfWeights& to_;
  const F32 low_, high_;
};

// Weights in panels. widen() takes a block of 32 inputs of 16 rows, those from `row` on; rows that there are
// not may come to anything.
template <class Groups>
class PackedWeights {
 public:
  explicit PackedWeights(const quant::PanelsI8& w) noexcept : w_(w) {}
  size_t n_rows() const noexcept { return w_.shape.n_rows; }
  void widen(TileOfWeights& to, size_t row, size_t b, const Stretch&) const noexcept {
    const quant::PanelsI8 panel = w_.rows(row, std::min(panel_rows, n_rows() - row));
    const StepsInBf16 steps(to, Groups::load_scale(panel.scales + b / Groups::blocks * panel_rows));
    const std::int8_t* const codes = panel.codes + b * block_bytes;
    const size_t n_steps = std::min(block_steps, panel.shape.n_steps() - b * block_steps);
    for (size_t step = 0; step < n_steps; ++step) {
      prefetch_l2(codes + step * quant::i8_step_bytes + ahead);
      steps.widen(step, load_i32(codes + step * quant::i8_step_bytes));
    }
    for (size_t at = 2 * n_steps; at < std::size(to); ++at) std::memset(to[at], 0, sizeof to[at]);
  }

 private:
  // Bytes that are prefetched, into the L2 cache: tiles drive everything else from the L1 cache soon.
  static constexpr size_t ahead = 4096;
  const quant::PanelsI8 w_;
};

// Weights in Q8_0 rows. widen() is called for the blocks of a stretch, then for those of the next 16 rows.
class WeightsQ8_0 {
 public:
  // w: [n_rows, n_blocks]
  WeightsQ8_0(const BlockQ8_0* w, size_t n_rows, size_t n_blocks) noexcept
      : w_(w), n_rows_(n_rows), n_blocks_(n_blocks) {}
  size_t n_rows() const noexcept { return n_rows_; }
  void widen(TileOfWeights& to, size_t row, size_t b, const Stretch& stretch) const noexcept {
    const size_t last = n_rows_ - 1 - row;  // stands for rows that there are not
    const BlockQ8_0* const first = w_ + row * n_blocks_ + b;
    const auto block_of = [&](size_t r) { return first + std::min(r, last) * n_blocks_; };
    const size_t length = stretch.end - stretch.begin;
    const size_t ahead =
        blocks_ahead + (b + blocks_ahead < stretch.end ? 0 : panel_rows * n_blocks_ - length);
    F32 square[square_side];
    load_square(square, 0, block_of, [&](const BlockQ8_0* block) { prefetch_l2(block + ahead); });
    alignas(line_bytes) std::uint16_t scales[panel_rows];
    RUNNEL_UNROLL for (size_t r = 0; r < panel_rows; ++r) scales[r] = block_of(r)->d;
    const StepsInBf16 steps(to, load_f16(scales));
    RUNNEL_UNROLL for (size_t step = 0; step < block_steps; ++step)
        steps.widen(step, _mm512_castps_si512(square[step]));
  }

 private:
  static constexpr size_t blocks_ahead = 12;  // as above
  const BlockQ8_0* const w_;
  const size_t n_rows_, n_blocks_;
};

}  // namespace
}  // namespace runnel::simd
