// The product of panels of int16 (quant/i16.h) with activations of int16. For a tile of panels and tokens
// each block of 32 inputs is summed exactly in int32 registers; then one conversion and one fused addition
// carry it into float sums, in the order that kernels.h lays down. The panels of a tile stay in the L1 cache
// while all tokens pass.
#pragma once
#include <algorithm>

#include "quant/i16.h"
#include "simd/i16.h"
#include "simd/int8/vocabulary.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

constexpr size_t i16_block_steps = quant::i16_block / quant::i16_step_cols;  // of a block
constexpr size_t i16_step_codes = panel_rows * quant::i16_step_cols;

// Panels and tokens of a tile.
struct I16Tile {
  quant::PanelsI16 w;   // the first panel
  size_t codes_stride;  // from panel to panel; 0 repeats the only one
  size_t scales_stride;
  quant::ActivationsI16 x;  // tokens of one chunk
  size_t first_block;       // of x: where the columns of w begin

  size_t n_blocks() const noexcept { return w.shape.n_blocks(); }
  const std::int16_t* weights(size_t p, size_t v, size_t b, size_t step) const noexcept {
    return w.codes + p * codes_stride + (b * i16_block_steps + step) * i16_step_codes +
           v * lanes * quant::i16_step_cols;
  }
  F32 w_scale(size_t p, size_t v, size_t group) const noexcept {
    return load_bf16(w.scales + p * scales_stride + group * panel_rows + v * lanes);
  }
  // Two inputs of a token, as one number.
  I16 inputs(size_t t, size_t b, size_t step) const noexcept {
    std::int32_t two = 0;
    const size_t place = x.place(first_block + b) + t;
    __builtin_memcpy(&two, x.codes + place * quant::i16_block + step * quant::i16_step_cols, sizeof two);
    return I32(two);
  }
  F32 x_scale(size_t t, size_t b) const noexcept { return F32(x.scales[x.place(first_block + b) + t]); }
};

template <size_t n_panels, size_t n_tok>
using TileSums = F32[n_tok][n_panels * panel_vecs];

// sums += a block's dots times the scales of the activations.
template <size_t n_panels, size_t n_tok>
inline void add_block(TileSums<n_panels, n_tok>& sums, const I16Tile& tile, size_t b) noexcept {
  constexpr size_t n_vecs = n_panels * panel_vecs;
  PairSums dots[n_tok][n_vecs];
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) dots[t][v] = PairSums{};
  }
  RUNNEL_UNROLL for (size_t step = 0; step < i16_block_steps; ++step) {
    I16 w[n_vecs];
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) w[v] =
        load_i32(tile.weights(v / panel_vecs, v % panel_vecs, b, step));
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
      const I16 x = tile.inputs(t, b, step);
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) dots[t][v] = add_pairs(dots[t][v], w[v], x);
    }
  }
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    const F32 scale = tile.x_scale(t, b);
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) sums[t][v] =
        fmadd(to_float(I32((I16)dots[t][v])), scale, sums[t][v]);
  }
}

template <size_t n_panels, size_t n_tok>
inline void add_groups(TileSums<n_panels, n_tok>& y, const I16Tile& tile) noexcept {
  constexpr size_t n_vecs = n_panels * panel_vecs, group_blocks = quant::i16_group / quant::i16_block;
  for (size_t begin = 0; begin < tile.n_blocks(); begin += group_blocks) {
    TileSums<n_panels, n_tok> part;
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) part[t][v] = F32(0.0f);
    }
    for (size_t b = begin; b < std::min(begin + group_blocks, tile.n_blocks()); ++b)
      add_block<n_panels, n_tok>(part, tile, b);
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) {
      const F32 scale = tile.w_scale(v / panel_vecs, v % panel_vecs, begin / group_blocks);
      RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) y[t][v] = fmadd(part[t][v], scale, y[t][v]);
    }
  }
}

// y += value * column of the panels, for each entry that is carried of token t. y: [n_panels * panel_vecs]
template <size_t n_panels>
inline void add_carried(F32* y, const I16Tile& tile, size_t t) noexcept {
  const quant::CarriedEntry* const carried = tile.x.carried + t * quant::i8_max_carried(tile.x.n_cols);
  const size_t first_col = tile.first_block * quant::i16_block;
  for (size_t i = 0; i < tile.x.n_carried[t]; ++i) {
    const size_t col = carried[i].index - first_col;  // huge where it is before the first
    if (col >= tile.w.shape.n_cols) continue;
    RUNNEL_UNROLL for (size_t v = 0; v < n_panels * panel_vecs; ++v) {
      const size_t p = v / panel_vecs, part = v % panel_vecs;
      const I32 two = load_i32(tile.weights(p, part, 0, col / quant::i16_step_cols));
      const I32 code = col % quant::i16_step_cols == 0 ? (two << 16) >> 16 : two >> 16;
      const F32 weight = to_float(code) * tile.w_scale(p, part, col / quant::i16_group);
      y[v] = fmadd(F32(carried[i].value), weight, y[v]);
    }
  }
}

// y: [n_tok, n_panels * 16], tokens y_stride apart.
template <size_t n_panels, size_t n_tok>
[[gnu::noinline]] void multiply_i16(float* y, size_t y_stride, bool adds, const I16Tile& tile) noexcept {
  constexpr size_t n_vecs = n_panels * panel_vecs;
  TileSums<n_panels, n_tok> sums;
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) sums[t][v] =
        adds ? load(y + t * y_stride + v * lanes) : F32(0.0f);
    RUNNEL_UNROLL for (size_t p = 0; p < n_panels; ++p)
        prefetch_to_write(y + (n_tok + t) * y_stride + p * panel_rows);  // of the next tile
  }
  add_groups<n_panels, n_tok>(sums, tile);
  for (size_t t = 0; t < n_tok; ++t) {
    if (tile.x.n_carried[t] != 0) add_carried<n_panels>(sums[t], tile, t);
  }
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) store(y + t * y_stride + v * lanes, sums[t][v]);
  }
}

// All tokens with n_rows <= n_panels * 16 rows.
template <size_t n_panels, size_t max_tokens>
inline void multiply_i16_panels(float* y, size_t y_stride, bool adds, I16Tile tile, size_t n_tok,
                                size_t n_rows) noexcept {
  while (n_tok != 0) {
    const size_t in_chunk = std::min(n_tok, tile.x.n_in_chunk());
    const size_t n = next_tile(in_chunk, max_tokens);
    with_constant<max_tokens>(n, [&](auto tokens) {
      with_whole_rows<tokens, n_panels * panel_rows>(
          y, y_stride, n_rows, !adds,
          [&](float* rows, size_t stride) { multiply_i16<n_panels, tokens>(rows, stride, adds, tile); });
    });
    y += n * y_stride;
    tile.x = tile.x.tokens(n);
    n_tok -= n;
  }
}

template <size_t n_panels, size_t max_tokens>
void matmul_i16(float* y, size_t y_stride, bool adds, const quant::ActivationsI16& x, size_t first_col,
                size_t n_tok, const quant::PanelsI16& w) noexcept {
  constexpr size_t rows = n_panels * panel_rows;
  for (size_t r = 0; r < w.shape.n_rows; r += rows) {
    const size_t n_rows = std::min(rows, w.shape.n_rows - r);
    const quant::PanelsI16 panels = w.rows(r, n_rows);
    const bool whole = panels.shape.n_panels() == n_panels;
    const I16Tile tile{panels, whole ? panels.shape.panel_codes() : 0,
                       whole ? panels.shape.panel_scales() : 0, x, first_col / quant::i16_block};
    multiply_i16_panels<n_panels, max_tokens>(y + r, y_stride, adds, tile, n_tok, n_rows);
  }
}

}  // namespace
}  // namespace runnel::simd
