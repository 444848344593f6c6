#include "lib/linear/int16_matmul.h"

#include "lib/linear/float_matmul.h"
#include "lib/linear/panel_blocks.h"

namespace runnel {
namespace {

// out = as many rows and columns of W as it has, from `row` and `col` on. Whether that is precise enough.
bool pack(const simd::Kernels& k, const quant::MutablePanelsI16& out, const Linear& w, std::size_t row,
          std::size_t col) {
  const std::byte* const in = w.at(row, col);
  return w.type->type == quant::TensorType::f16
             ? k.pack_i16_f16(out, reinterpret_cast<const simd::F16*>(in), w.n_cols)
             : k.pack_i16_bf16(out, reinterpret_cast<const simd::BF16*>(in), w.n_cols);
}

}  // namespace

quant::ShapeI16 int16_block() noexcept { return {simd::panel_block_rows, simd::panel_block_cols}; }

void int16_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  const Input& x, Rows y, std::size_t n_tok) noexcept {
  for_each_panel_block(w, rows, [&](Range block, Range cols) {
    const bool adds = cols.begin != 0;
    const quant::MutablePanelsI16 codes{
        {block.size(), cols.size()}, scratch.int16.data(), scratch.int16_scales.data()};
    const auto multiply_int16 = [&](Range some) {
      const quant::MutablePanelsI16 panels = codes.rows(some.begin - block.begin, some.size());
      kernels.matmul_i16(y.data + some.begin, y.stride, adds, x.int16, cols.begin, n_tok,
                         {panels.shape, panels.codes, panels.scales});
    };
    const auto multiply_floats = [&](Range panel) {
      pack_float_panel(kernels, scratch.floats.data(), w, panel, cols);
      kernels.matmul_panels(y.data + panel.begin, y.stride, adds, x.rows.data + cols.begin, x.rows.stride,
                            n_tok, scratch.floats.data(), panel.size(), cols.size());
    };
    std::size_t begin = block.begin;  // of the panels that wait to be multiplied in int16
    for (std::size_t r = block.begin; r < block.end; r += simd::panel_rows) {
      const Range panel{r, std::min(block.end, r + simd::panel_rows)};
      if (pack(kernels, codes.rows(r - block.begin, panel.size()), w, r, cols.begin)) continue;
      multiply_int16({begin, r});
      multiply_floats(panel);
      begin = panel.end;
    }
    multiply_int16({begin, block.end});
  });
}

}  // namespace runnel
