// Q8_0 blocks into the panels that the int8 product reads (quant/i8.h): 16 rows, four inputs after four.
#pragma once
#include <algorithm>

#include "simd/int8/squares.h"

namespace runnel::simd {
namespace {

constexpr size_t blocks_ahead = 12;  // of the reads

// A square of `lanes` rows, w_stride blocks apart, to where these rows have their codes. Prefetches what lies
// `ahead` blocks on.
inline void pack_square(std::int8_t* codes, const BlockQ8_0* w, size_t w_stride, size_t step,
                        size_t ahead) noexcept {
  F32 square[square_side];
  load_square(
      square, step, [&](size_t r) { return w + r * w_stride; },
      [&](const BlockQ8_0* block) { prefetch(block, ahead); });
  RUNNEL_UNROLL for (size_t i = 0; i < square_side; ++i)
      store_words(codes + (step + i) * quant::i8_step_bytes, square[i]);
}

inline void pack_panel(std::int8_t* codes, std::uint16_t* scales, const BlockQ8_0* w,
                       size_t n_blocks) noexcept {
  for (size_t b = 0; b < n_blocks; ++b, ++w, codes += block_bytes, scales += panel_rows) {
    // At the end of the rows, the next panel's.
    const size_t ahead = blocks_ahead + (b + blocks_ahead < n_blocks ? 0 : (panel_rows - 1) * n_blocks);
    for (size_t r = 0; r < panel_rows; r += lanes) {
      for (size_t step = 0; step < block_steps; step += square_side)
        pack_square(codes + r * quant::i8_step_cols, w + r * n_blocks, n_blocks, step, ahead);
    }
    RUNNEL_UNROLL for (size_t r = 0; r < panel_rows; ++r) scales[r] = w[r * n_blocks].d;
  }
}

// Fewer than 16 rows, and zeros.
inline void pack_part_of_panel(std::int8_t* codes, std::uint16_t* scales, const BlockQ8_0* w, size_t n_blocks,
                               size_t n_rows) noexcept {
  for (size_t b = 0; b < n_blocks; ++b) {
    for (size_t r = 0; r < panel_rows; ++r) {
      const BlockQ8_0 block = r < n_rows ? w[r * n_blocks + b] : BlockQ8_0{};
      scales[b * panel_rows + r] = block.d;
      for (size_t step = 0; step < block_steps; ++step) {
        __builtin_memcpy(codes + b * block_bytes + step * quant::i8_step_bytes + r * quant::i8_step_cols,
                         block.qs + step * quant::i8_step_cols, quant::i8_step_cols);
      }
    }
  }
}

void pack_q8_0(const quant::MutablePanelsI8& out, const BlockQ8_0* w) noexcept {
  const size_t n_blocks = out.shape.n_groups();
  for (size_t r = 0; r < out.shape.n_rows; r += panel_rows) {
    const size_t n = std::min(panel_rows, out.shape.n_rows - r);
    const quant::MutablePanelsI8 panel = out.rows(r, n);
    if (n == panel_rows)
      pack_panel(panel.codes, panel.scales, w + r * n_blocks, n_blocks);
    else
      pack_part_of_panel(panel.codes, panel.scales, w + r * n_blocks, n_blocks, n);
  }
}

}  // namespace
}  // namespace runnel::simd
