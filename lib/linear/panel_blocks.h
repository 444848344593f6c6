// A weight matrix that many tokens are multiplied with, a block at a time: what is laid out of it in panels
// stays in the L2 cache while all tokens pass (Goto and van de Geijn 2008, Anatomy of High-Performance Matrix
// Multiplication).
#pragma once
#include <algorithm>

#include "lib/linear/linear.h"

namespace runnel {

// How a team shares W's rows: a block is a piece.
inline SharedWork panel_block_pieces(const Linear& w, std::size_t n_threads) noexcept {
  return {.n = w.n_rows,
          .multiple = simd::panel_rows,
          .n_pieces = divided_up(w.n_rows / n_threads, simd::panel_block_rows)};
}

// multiply(rows, cols) for each block of W's rows: whole panels, and columns from whole cache lines of every
// type on. The product of a block with first columns (cols.begin is 0) is the first of its outputs, to which
// those of later columns are added.
template <class Multiply>
void for_each_panel_block(const Linear& w, Range rows, const Multiply& multiply) noexcept {
  constexpr std::size_t col_multiple = 32;
  static_assert(col_multiple % quant::i16_block == 0);
  const std::size_t n_rows = even_part(rows.size(), simd::panel_block_rows, simd::panel_rows);
  const std::size_t n_cols = even_part(w.n_cols, simd::panel_block_cols, col_multiple);
  for (std::size_t r = rows.begin; r < rows.end; r += n_rows) {
    for (std::size_t c = 0; c < w.n_cols; c += n_cols)
      multiply(Range{r, std::min(rows.end, r + n_rows)}, Range{c, std::min(w.n_cols, c + n_cols)});
  }
}

}  // namespace runnel
