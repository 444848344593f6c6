// y = W x in int8 for some tokens and Q8_0 weights. W is laid out a block at a time as packed files have it
// (quant/i8.h) and multiplied as those are: the same bits as of the packed matrix.
#pragma once
#include "lib/linear/linear.h"

namespace runnel {

// Codes of the largest block of a matrix with up to max_cols columns.
std::size_t q8_0_block_codes(std::size_t max_cols) noexcept;

// y[t, r] = sum_c W[r, c] x[t, c] for those rows. The same bits for any team. next: as multiply() has it.
void q8_0_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                 const std::byte* next, const quant::ActivationsI8& x, Rows y, std::size_t n_tok) noexcept;

}  // namespace runnel
