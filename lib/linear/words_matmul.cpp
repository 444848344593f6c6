#include "lib/linear/words_matmul.h"

#include "lib/linear/panel_blocks.h"

namespace runnel {
namespace {

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

quant::ShapeI16 words_block() noexcept { return {simd::panel_block_rows, simd::panel_block_cols}; }

void words_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  const quant::ActivationsI16& x, Rows y, std::size_t n_tok) noexcept {
  std::int16_t* const codes = scratch.words.data();
  std::uint16_t* const scales = scratch.word_scales.data();
  add_panel_blocks(w, rows, y, n_tok, [&](Range block, Range cols) {
    const quant::ShapeI16 shape{block.size(), cols.size()};
    pack(kernels, {shape, codes, scales}, w, block.begin, cols.begin);
    kernels.matmul_i16(y.data + block.begin, y.stride, x, cols.begin, n_tok, {shape, codes, scales});
  });
}

}  // namespace runnel
