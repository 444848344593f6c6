// y = W x for many tokens and weights in F16 or BF16, on processors that multiply integers of 16 bits faster
// than floats. W is laid out a block at a time as such integers (quant/i16.h), and the block stays in the L2
// cache while all tokens pass.
#pragma once
#include "lib/linear/linear.h"

namespace runnel {

// The largest block of a matrix.
quant::ShapeI16 words_block() noexcept;

// y[t, r] = sum_c W[r, c] x[t, c] for those rows. The same bits for any team.
void words_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  const quant::ActivationsI16& x, Rows y, std::size_t n_tok) noexcept;

}  // namespace runnel
