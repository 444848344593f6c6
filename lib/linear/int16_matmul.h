// y = W x for many tokens and weights in F16 or BF16, on processors that multiply integers of 16 bits faster
// than floats. W is laid out a block at a time as such integers (quant/i16.h), and the block stays in the L2
// cache while all tokens pass. Panels for which these are not precise enough are multiplied in floats.
#pragma once
#include "lib/linear/linear.h"

namespace runnel {

// The largest block of a matrix, and the floats of a panel of it.
quant::ShapeI16 int16_block() noexcept;
constexpr std::size_t int16_panel_floats = simd::panel_rows * simd::panel_block_cols;

// y[t, r] = sum_c W[r, c] x[t, c] for those rows. The same bits for any team.
void int16_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  const Input& x, Rows y, std::size_t n_tok) noexcept;

}  // namespace runnel
