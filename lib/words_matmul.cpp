#include "lib/words_matmul.h"

#include <algorithm>

namespace runnel {
namespace {

using simd::panel_block_cols;
using simd::panel_block_rows;

// panels = as many rows and columns of W as they have, from `row` and `col` on.
void pack(const simd::Kernels& k, const quant::MutablePanelsI16& panels, const Linear& w, std::size_t row,
          std::size_t col) {
  const std::byte* const in = w.at(row, col);
  if (w.type->type == quant::TensorType::f16)
    k.pack_i16_f16(panels, reinterpret_cast<const simd::F16*>(in), w.n_cols);
  else
    k.pack_i16_bf16(panels, reinterpret_cast<const simd::BF16*>(in), w.n_cols);
}

}  // namespace

quant::ShapeI16 words_block() noexcept { return {panel_block_rows, panel_block_cols}; }

SharedWork words_matmul_rows(const Linear& w, std::size_t n_threads) noexcept {
  return {.n = w.n_rows,
          .multiple = simd::panel_rows,
          .n_pieces = divided_up(w.n_rows / n_threads, panel_block_rows)};
}

void words_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  const quant::ActivationsI16& x, Rows y, std::size_t n_tok) noexcept {
  for (std::size_t t = 0; t < n_tok; ++t) std::fill_n(y.data + t * y.stride + rows.begin, rows.size(), 0.0f);
  const std::size_t n_rows = even_part(rows.size(), panel_block_rows, simd::panel_rows);
  const std::size_t n_cols = even_part(w.n_cols, panel_block_cols, quant::i16_block);
  for (std::size_t r = rows.begin; r < rows.end; r += n_rows) {
    for (std::size_t c = 0; c < w.n_cols; c += n_cols) {
      const quant::ShapeI16 shape{std::min(n_rows, rows.end - r), std::min(n_cols, w.n_cols - c)};
      std::int16_t* const codes = scratch.words.data();
      std::uint16_t* const scales = scratch.word_scales.data();
      pack(kernels, {shape, codes, scales}, w, r, c);
      kernels.matmul_i16(y.data + r, y.stride, x, c, n_tok, {shape, codes, scales});
    }
  }
}

}  // namespace runnel
