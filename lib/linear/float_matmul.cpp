#include "lib/linear/float_matmul.h"

#include <algorithm>

#include "lib/linear/blas.h"
#include "lib/linear/panel_blocks.h"

namespace runnel {
namespace {

using quant::TensorType;
using simd::panel_block_cols;
using simd::panel_block_rows;

// scratch.floats = W[rows, cols].
void pack(const simd::Kernels& k, LinearScratch& scratch, const Linear& w, Range rows, Range cols) {
  for (std::size_t r = 0; r < rows.size(); r += simd::panel_rows) {
    const std::size_t row = rows.begin + r, end = std::min(rows.end, row + simd::panel_rows);
    pack_float_panel(k, scratch.floats.data() + r * cols.size(), w, {row, end}, cols);
  }
}

void multiply_panels(const simd::Kernels& k, LinearScratch& scratch, const Linear& w, Range rows, ConstRows x,
                     Rows y, std::size_t n_tok) {
  for_each_panel_block(w, rows, [&](Range block, Range cols) {
    pack(k, scratch, w, block, cols);
    k.matmul_panels(y.data + block.begin, y.stride, cols.begin != 0, x.data + cols.begin, x.stride, n_tok,
                    scratch.floats.data(), block.size(), cols.size());
  });
}

// Whole rows at a time: sgemm cuts and packs by itself.
void multiply_by_blas(const simd::Kernels& k, LinearScratch& scratch, const Linear& w, Range rows,
                      ConstRows x, Rows y, std::size_t n_tok) {
  const std::size_t n_rows = blas_block_rows(w.n_rows, w.n_cols);
  for (std::size_t begin = rows.begin; begin < rows.end; begin += n_rows) {
    const std::size_t n = std::min(n_rows, rows.end - begin);
    for (std::size_t i = 0; i < n; ++i) decode_row(k, w, begin + i, scratch.floats.data() + i * w.n_cols);
    blas_multiply(scratch.floats.data(), n, w.n_cols, x, {y.data + begin, y.stride}, n_tok);
  }
}

}  // namespace

std::size_t float_block_floats(std::size_t max_cols) noexcept {
  return blas_is_usable() ? blas_block_floats(max_cols) : panel_block_rows * panel_block_cols;
}

void pack_float_panel(const simd::Kernels& k, float* out, const Linear& w, Range rows, Range cols) noexcept {
  const std::byte* const in = w.at(rows.begin, cols.begin);
  const std::size_t n_rows = rows.size(), n_cols = cols.size();
  switch (w.type->type) {
    case TensorType::f32:
      return k.pack_panel_f32(out, reinterpret_cast<const float*>(in), w.n_cols, n_rows, n_cols);
    case TensorType::f16:
      return k.pack_panel_f16(out, reinterpret_cast<const simd::F16*>(in), w.n_cols, n_rows, n_cols);
    case TensorType::bf16:
      return k.pack_panel_bf16(out, reinterpret_cast<const simd::BF16*>(in), w.n_cols, n_rows, n_cols);
    default:
      return;  // multiply() lets no other type through
  }
}

SharedWork float_matmul_rows(const Linear& w, std::size_t n_threads) noexcept {
  if (!blas_is_usable()) return panel_block_pieces(w, n_threads);
  const std::size_t block_rows = blas_block_rows(w.n_rows, w.n_cols);
  return {.n = w.n_rows, .multiple = block_rows, .n_pieces = divided_up(w.n_rows / n_threads, block_rows)};
}

void float_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  ConstRows x, Rows y, std::size_t n_tok) noexcept {
  if (blas_is_usable())
    multiply_by_blas(kernels, scratch, w, rows, x, y, n_tok);
  else
    multiply_panels(kernels, scratch, w, rows, x, y, n_tok);
}

}  // namespace runnel
