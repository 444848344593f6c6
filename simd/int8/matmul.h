// The product of packed int8 panels (quant/i8.h) with quantised activations, written once for all instruction
// sets. For a tile of panels and tokens each block of 32 inputs is summed exactly in int32 registers, by the
// instruction set's Dot; then one conversion and one fused addition carry it into float sums, in the order
// that kernels.h lays down. The panels of a tile stay in the L2 cache while the tokens pass.
//
// Before it includes this file, simd/isa/<name>.cpp defines
//
//   struct Dot {
//     static constexpr size_t tile_panels, tile_tokens;  // what fills the registers
//     static constexpr size_t decode_panels;             // read side by side for a single token
//     // Calls take(t, p, v, dots) once for each vector: `lanes` dots of token t with the rows from v * lanes
//     on of panel
//     // p.
//     template <size_t n_panels, size_t n_tok, class Steps, class Take>
//     static void block(const BlockI8& block, Steps n_steps, Take take) noexcept;
//   };
#pragma once
#include <algorithm>

#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

template <size_t n_panels, size_t n_tok>
using Sums = F32[n_tok][n_panels][panel_vecs];

// Value by value: `= {}` becomes a loop over memory.
template <size_t n_panels, size_t n_tok>
inline void clear(Sums<n_panels, n_tok>& sums) noexcept {
  RUNNEL_UNROLL
  for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) sums[t][p][v] = F32(0.0f);
    }
  }
}

// The two variants of the weights.
struct WideGroups {
  static constexpr size_t blocks = 4;
  static F32 load_scale(const std::uint16_t* p) noexcept { return load_bf16(p); }
};
struct NarrowGroups {
  static constexpr size_t blocks = 1;
  static F32 load_scale(const std::uint16_t* p) noexcept { return load_f16(p); }
};

// Panels and tokens of a tile.
struct Tile {
  const std::int8_t* codes;
  const std::uint16_t* scales;
  size_t codes_stride;  // from panel to panel; 0 repeats the only one
  size_t scales_stride;
  quant::ActivationsI8 x;

  size_t n_blocks() const noexcept { return quant::i8_blocks(x.n_cols); }
  size_t n_whole_blocks() const noexcept { return x.n_cols / quant::i8_block; }
  // Of the last block, where it is not whole.
  size_t last_steps() const noexcept {
    return (x.n_cols % quant::i8_block + quant::i8_step_cols - 1) / quant::i8_step_cols;
  }
  BlockI8 block(size_t b) const noexcept {
    return {codes + b * block_bytes,    codes_stride,  x.codes + b * quant::i8_block,
            quant::i8_padded(x.n_cols), x.offsets + b, n_blocks()};
  }
  // In every lane.
  F32 x_scale(size_t t, size_t b) const noexcept { return F32(x.scales[t * n_blocks() + b]); }
  template <class Groups>
  F32 w_scale(size_t p, size_t v, size_t group) const noexcept {
    return Groups::load_scale(scales + p * scales_stride + group * panel_rows + v * lanes);
  }
};

// y += the block's dots times their scale(t, p, v).
template <size_t n_panels, size_t n_tok, class Steps, class Scale>
inline void add_block(Sums<n_panels, n_tok>& y, const BlockI8& block, Steps n_steps, Scale scale) noexcept {
  Dot::block<n_panels, n_tok>(block, n_steps, [&](size_t t, size_t p, size_t v, I32 dots) {
    y[t][p][v] = fmadd(to_float(dots), scale(t, p, v), y[t][p][v]);
  });
}

// The sums of a tile over all blocks, but for the carried entries.
template <size_t n_panels, size_t n_tok>
inline void add_blocks(WideGroups, Sums<n_panels, n_tok>& y, const Tile& tile) noexcept {
  const size_t n_whole = tile.n_whole_blocks();
  for (size_t begin = 0; begin < tile.n_blocks(); begin += WideGroups::blocks) {
    Sums<n_panels, n_tok> part;
    clear<n_panels, n_tok>(part);
    const auto add = [&](size_t b, auto n_steps) {
      add_block<n_panels, n_tok>(part, tile.block(b), n_steps,
                                 [&](size_t t, size_t, size_t) { return tile.x_scale(t, b); });
    };
    const size_t end = begin + WideGroups::blocks;
    for (size_t b = begin; b < std::min(end, n_whole); ++b) add(b, WholeBlock());
    if (n_whole < std::min(end, tile.n_blocks())) add(n_whole, tile.last_steps());
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        const F32 scale = tile.w_scale<WideGroups>(p, v, begin / WideGroups::blocks);
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) y[t][p][v] = fmadd(part[t][p][v], scale, y[t][p][v]);
      }
    }
  }
}
template <size_t n_panels, size_t n_tok>
inline void add_blocks(NarrowGroups, Sums<n_panels, n_tok>& y, const Tile& tile) noexcept {
  const auto add = [&](size_t b, auto n_steps) {
    add_block<n_panels, n_tok>(y, tile.block(b), n_steps, [&](size_t t, size_t p, size_t v) {
      return tile.x_scale(t, b) * tile.w_scale<NarrowGroups>(p, v, b);
    });
  };
  const size_t n_whole = tile.n_whole_blocks();
  for (size_t b = 0; b < n_whole; ++b) add(b, WholeBlock());
  if (n_whole < tile.n_blocks()) add(n_whole, tile.last_steps());
}

// y[p] += value * column `index` of the panels, for each carried entry of token t.
template <class Groups, size_t n_panels>
inline void add_carried(F32 (&y)[n_panels][panel_vecs], const Tile& tile, size_t t) noexcept {
  const quant::CarriedI8* carried = tile.x.carried + t * quant::i8_max_carried(tile.x.n_cols);
  for (size_t i = 0; i < tile.x.n_carried[t]; ++i) {
    const size_t index = carried[i].index;
    const size_t group = index / (Groups::blocks * quant::i8_block);
    const std::int8_t* const step =
        tile.codes + index / quant::i8_step_cols * quant::i8_step_bytes;  // of the first panel
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        const I32 four = load_i32(step + p * tile.codes_stride + v * lanes * quant::i8_step_cols);
        const F32 weights =
            to_float(byte_of(four, index % quant::i8_step_cols)) * tile.template w_scale<Groups>(p, v, group);
        y[p][v] = fmadd(F32(carried[i].value), weights, y[p][v]);
      }
    }
  }
}

// n <= n_panels * 16 numbers of one token.
template <size_t n_panels>
inline void store_rows(float* y, const F32 (&sums)[n_panels][panel_vecs], size_t n) noexcept {
  RUNNEL_UNROLL
  for (size_t p = 0; p < n_panels; ++p) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) {
      const size_t r = p * panel_rows + v * lanes;
      if (r >= n) return;
      if (r + lanes <= n) {
        store(y + r, sums[p][v]);
      } else {
        store_n(y + r, sums[p][v], n - r);
      }
    }
  }
}

// y: [n_tok, n_rows], rows y_stride apart; n_rows <= n_panels * 16.
template <class Groups, size_t n_panels, size_t n_tok>
inline void multiply_tile(float* y, size_t y_stride, const Tile& tile, size_t n_rows) noexcept {
  Sums<n_panels, n_tok> sums;
  clear<n_panels, n_tok>(sums);
  add_blocks<n_panels, n_tok>(Groups(), sums, tile);
  for (size_t t = 0; t < n_tok; ++t) {
    Sums<n_panels, 1> sum;  // in registers, which the addition of one carried entry after the other needs
    std::copy_n(&sums[t][0][0], n_panels * panel_vecs, &sum[0][0][0]);
    add_carried<Groups, n_panels>(sum[0], tile, t);
    store_rows<n_panels>(y + t * y_stride, sum[0], n_rows);
  }
}

// All tokens, in tiles of n_tok; what is left goes on to smaller tiles.
template <class Groups, size_t n_panels, size_t n_tok>
inline void multiply_tokens(float* y, size_t y_stride, Tile tile, size_t n_left, size_t n_rows) noexcept {
  for (; n_left >= n_tok; n_left -= n_tok) {
    multiply_tile<Groups, n_panels, n_tok>(y, y_stride, tile, n_rows);
    y += n_tok * y_stride;
    tile.x = tile.x.tokens(n_tok);
  }
  if constexpr (n_tok > 1) {
    if (n_left != 0) multiply_tokens<Groups, n_panels, n_tok / 2>(y, y_stride, tile, n_left, n_rows);
  }
}

// Rows [*begin, w.shape.n_rows), n_panels at a time as long as there are that many (or one more row than
// none, if `last`: panels that are not there are replaced by the one that is, and their sums are not stored).
template <class Groups, size_t n_panels, size_t max_tokens>
inline size_t multiply_panels(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                              const quant::PanelsI8& w, size_t begin, bool last) noexcept {
  constexpr size_t rows = n_panels * panel_rows;
  for (; begin + rows <= w.shape.n_rows || (last && begin < w.shape.n_rows); begin += rows) {
    const size_t n_rows = std::min(rows, w.shape.n_rows - begin);
    const quant::PanelsI8 part = w.rows(begin, n_rows);
    const bool whole = part.shape.n_panels() == n_panels;
    const Tile tile{part.codes, part.scales, whole ? part.shape.panel_codes() : 0,
                    whole ? part.shape.panel_scales() : 0, x};
    multiply_tokens<Groups, n_panels, max_tokens>(y + begin, y_stride, tile, n_tok, n_rows);
  }
  return begin;
}

template <class Groups>
inline void multiply(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                     const quant::PanelsI8& w) noexcept {
  size_t begin = 0;
  if (n_tok == 1 && Dot::decode_panels > Dot::tile_panels)
    begin = multiply_panels<Groups, Dot::decode_panels, 1>(y, y_stride, x, n_tok, w, begin, false);
  multiply_panels<Groups, Dot::tile_panels, Dot::tile_tokens>(y, y_stride, x, n_tok, w, begin, true);
}

// As many tokens at a time as have their codes in the L2 cache beside the panels of a tile.
constexpr size_t resident_bytes = size_t{512} << 10;

void matmul_i8(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
               const quant::PanelsI8& w) noexcept {
  const size_t fitting = resident_bytes / std::max(size_t{1}, quant::i8_padded(x.n_cols)) / Dot::tile_tokens;
  const size_t most = std::max(size_t{1}, fitting) * Dot::tile_tokens;
  for (size_t t = 0; t < n_tok; t += most) {
    const size_t n = std::min(most, n_tok - t);
    if (w.shape.variant == quant::VariantI8::g32) {
      multiply<NarrowGroups>(y + t * y_stride, y_stride, x.tokens(t), n, w);
    } else {
      multiply<WideGroups>(y + t * y_stride, y_stride, x.tokens(t), n, w);
    }
  }
}

}  // namespace
}  // namespace runnel::simd
