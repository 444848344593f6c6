// The float product of packed panels and many tokens. Blocked as in Goto and van de Geijn 2008 (Anatomy of
// High-Performance Matrix Multiplication): a tile of y stays in registers while k runs, the tokens of the
// tile are copied into L1, and a block of panels stays in L2 while all tokens pass.
//
// Every y[t, r] is one chain of fused additions in the order of k, whatever the tile: the same bits for every
// split.
#pragma once
#include <algorithm>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t tile_panels = lanes == 16 ? 2 : 1;
// With the panels' vectors, all registers but a few: of 32 vectors of 16 lanes (AVX-512), 16 of 8 (AVX2), and
// 32 of 4 (NEON), where GCC 12 reads ahead so far that more would spill.
constexpr size_t tile_tokens = lanes == 16 ? 12 : lanes == 8 ? 6 : 4;
constexpr size_t prefetch_cols = 8;  // how far ahead of the reads

// Between the copied rows of x: known to the compiler, so that one register finds them all, and no multiple
// of 4 KiB, whose rows would meet in the same lines of L1.
constexpr size_t x_row = panel_block_cols + 16;

// x: [n_tok, n_cols], rows x_row apart, panels: n_panels of [n_cols, 16], panel_stride floats apart; y:
// [n_tok, n_panels * 16], rows y_stride apart, to whose numbers it adds, or else to zeros.
template <size_t n_panels, size_t n_tok>
inline void multiply_tile(float* y, size_t y_stride, bool adds, const float* x, const float* panels,
                          size_t panel_stride, size_t n_cols) noexcept {
  constexpr size_t n_vecs = n_panels * panel_vecs;
  F32 sums[n_tok][n_vecs];
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = adds ? load(y + t * y_stride + v * lanes) : F32(0.0f);
    // Those of the next tile, which otherwise waits for them: 4 % of a prompt.
    for (size_t p = 0; p < n_panels; ++p) prefetch_to_write(y + t * y_stride + (n_panels + p) * panel_rows);
  }
  for (size_t c = 0; c < n_cols; ++c) {
    F32 w[n_vecs];
    for (size_t p = 0; p < n_panels; ++p)
      prefetch(panels + p * panel_stride, (c + prefetch_cols) * panel_rows);
    for (size_t v = 0; v < n_vecs; ++v) {
      w[v] = load(panels + v / panel_vecs * panel_stride + c * panel_rows + v % panel_vecs * lanes);
    }
    for (size_t t = 0; t < n_tok; ++t) {
      const F32 x_tc(x[t * x_row + c]);
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = fmadd(x_tc, w[v], sums[t][v]);
    }
  }
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t v = 0; v < n_vecs; ++v) store(y + t * y_stride + v * lanes, sums[t][v]);
  }
}

// The last panel of a matrix whose row count is no multiple of 16: y has no room for the padding rows.
template <size_t n_tok>
inline void multiply_last_panel(float* y, size_t y_stride, bool adds, const float* x, const float* panel,
                                size_t n_rows, size_t n_cols) noexcept {
  float tile[n_tok * panel_rows] = {};
  for (size_t t = 0; adds && t < n_tok; ++t) std::copy_n(y + t * y_stride, n_rows, tile + t * panel_rows);
  multiply_tile<1, n_tok>(tile, panel_rows, adds, x, panel, 0, n_cols);
  for (size_t t = 0; t < n_tok; ++t) std::copy_n(tile + t * panel_rows, n_rows, y + t * y_stride);
}

// n_tok tokens against the columns [0, n_cols) of one block of panels with n_rows rows.
template <size_t n_tok>
inline void multiply_block(float* y, size_t y_stride, bool adds, const float* x, size_t x_stride,
                           const float* panels, size_t panel_stride, size_t n_rows, size_t n_cols) noexcept {
  float rows[n_tok * x_row];
  for (size_t t = 0; t < n_tok; ++t) std::copy_n(x + t * x_stride, n_cols, rows + t * x_row);
  // Those of the next tokens, a few with each tile.
  constexpr size_t tile_rows = tile_panels * panel_rows;
  constexpr size_t fetched_at_once = quant::divided_up(n_tok * tile_rows, panel_block_rows);
  size_t r = 0, fetched = n_tok;
  for (; r + tile_rows <= n_rows; r += tile_rows) {
    for (const size_t end = std::min(fetched + fetched_at_once, 2 * n_tok); fetched < end; ++fetched)
      prefetch_lines(x + fetched * x_stride, n_cols);
    multiply_tile<tile_panels, n_tok>(y + r, y_stride, adds, rows, panels + r / panel_rows * panel_stride,
                                      panel_stride, n_cols);
  }
  for (; r + panel_rows <= n_rows; r += panel_rows) {
    multiply_tile<1, n_tok>(y + r, y_stride, adds, rows, panels + r / panel_rows * panel_stride, panel_stride,
                            n_cols);
  }
  if (r < n_rows) {
    multiply_last_panel<n_tok>(y + r, y_stride, adds, rows, panels + r / panel_rows * panel_stride,
                               n_rows - r, n_cols);
  }
}

// All tokens, in tiles of n_tok; what is left goes on to tiles of 4, 2 and 1.
template <size_t n_tok>
inline void multiply_tokens(float* y, size_t y_stride, bool adds, const float* x, size_t x_stride,
                            size_t n_left, const float* panels, size_t panel_stride, size_t n_rows,
                            size_t n_cols) noexcept {
  for (; n_left >= n_tok; n_left -= n_tok) {
    multiply_block<n_tok>(y, y_stride, adds, x, x_stride, panels, panel_stride, n_rows, n_cols);
    y += n_tok * y_stride;
    x += n_tok * x_stride;
  }
  if constexpr (n_tok > 1) {
    if (n_left != 0) {
      multiply_tokens<(n_tok > 4 ? 4 : n_tok / 2)>(y, y_stride, adds, x, x_stride, n_left, panels,
                                                   panel_stride, n_rows, n_cols);
    }
  }
}

void matmul_panels(float* y, size_t y_stride, bool adds, const float* x, size_t x_stride, size_t n_tok,
                   const float* panels, size_t n_rows, size_t n_cols) noexcept {
  const size_t panel_stride = n_cols * panel_rows;
  size_t c = 0;
  do {  // once where there are no columns: all sums are zero
    const size_t cols = std::min(panel_block_cols, n_cols - c);
    for (size_t r = 0; r < n_rows; r += panel_block_rows) {
      const float* block = panels + r / panel_rows * panel_stride + c * panel_rows;
      multiply_tokens<tile_tokens>(y + r, y_stride, adds || c != 0, x + c, x_stride, n_tok, block,
                                   panel_stride, std::min(panel_block_rows, n_rows - r), cols);
    }
    c += panel_block_cols;
  } while (c < n_cols);
}

}  // namespace
}  // namespace runnel::simd
