// Weights into the panels that the float product reads (matmul.h): 16 rows, column after column.
#pragma once
#include <algorithm>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

// panel[c, r] = w[r, c] of up to `lanes` rows and columns.
template <class Format>
inline void pack_square(float* panel, const typename Format::Element* w, size_t w_stride, size_t n_rows,
                        size_t n_cols) noexcept {
  F32 square[lanes];
  if (n_rows >= lanes && n_cols >= lanes) {
    RUNNEL_UNROLL for (size_t r = 0; r < lanes; ++r) {
      square[r] = Format::load(w + r * w_stride);
      // The next panel's, which most likely comes next. Rows lie far apart, and nothing else tells the
      // processor where it will go on after these columns of each: packing took three times as long.
      prefetch(w, (panel_rows + r) * w_stride);
    }
    transpose(square);
    RUNNEL_UNROLL for (size_t c = 0; c < lanes; ++c) store(panel + c * panel_rows, square[c]);
    return;
  }
  const size_t n = std::min(lanes, n_cols);
  for (size_t r = 0; r < lanes; ++r) square[r] = r < n_rows ? Format::load_n(w + r * w_stride, n) : F32(0.0f);
  transpose(square);
  for (size_t c = 0; c < n; ++c) store(panel + c * panel_rows, square[c]);
}

template <class Format>
void pack_panel(float* panel, const typename Format::Element* w, size_t w_stride, size_t n_rows,
                size_t n_cols) noexcept {
  constexpr size_t line_cols = line_bytes / sizeof *w;  // of all squares, while they are in L1
  for (size_t line = 0; line < n_cols; line += line_cols) {
    for (size_t r = 0; r < panel_rows; r += lanes) {
      for (size_t c = line; c < std::min(n_cols, line + line_cols); c += lanes) {
        pack_square<Format>(panel + c * panel_rows + r, w + r * w_stride + c, w_stride,
                            n_rows - std::min(n_rows, r), n_cols - c);
      }
    }
  }
}

}  // namespace
}  // namespace runnel::simd
