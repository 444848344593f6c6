// y = W x for many tokens and weights in F32, F16 or BF16. W is decoded and packed a block at a time; a block
// stays in the L2 cache while all tokens pass (Goto and van de Geijn 2008, Anatomy of High-Performance Matrix
// Multiplication). Built with OpenBLAS, its sgemm multiplies instead.
#pragma once
#include "lib/linear/linear.h"

namespace runnel {

// Numbers in the largest block of a matrix with up to max_cols columns.
std::size_t float_block_floats(std::size_t max_cols) noexcept;

// out = W[rows, cols], a panel: [cols.size(), simd::panel_rows].
void pack_float_panel(const simd::Kernels& kernels, float* out, const Linear& w, Range rows,
                      Range cols) noexcept;

// How a team shares W's rows: a block is a piece.
SharedWork float_matmul_rows(const Linear& w, std::size_t n_threads) noexcept;

// y[t, r] = sum_c W[r, c] x[t, c] for those rows. The same bits for any team.
void float_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                  ConstRows x, Rows y, std::size_t n_tok) noexcept;

}  // namespace runnel
