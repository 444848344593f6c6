// OpenBLAS, in builds that have it (-Dblas=enabled): blas.cpp is the only file that knows it. Own kernels are
// faster where both were measured (tests/bench/results.md); a processor without a row of vector kernels is
// where it may help.
#pragma once
#include <cstddef>
#include <string>

#include "lib/linear/linear.h"

namespace runnel {

// It may be called by every thread of a team at once, single-threaded: its OpenMP build allows that.
bool blas_is_usable();
const char* blas_core();           // the processor it has taken kernels for, or ""
const std::string& blas_advice();  // why it is not used, or is slower than it could be; "": all is well

// Rows of W, [n_rows, n_cols], that one product takes, a multiple of simd::panel_rows. The same for every
// team, so that it sees the same shapes and gives the same bits.
std::size_t blas_block_rows(std::size_t n_rows, std::size_t n_cols);
std::size_t blas_block_floats(std::size_t max_cols);  // of the largest such block

// y[t, r] = sum_c w[r, c] x[t, c];  w: [n_rows, n_cols]. From the first time on OpenBLAS and OpenMP are set
// to one thread for whatever the calling thread does.
void blas_multiply(const float* w, std::size_t n_rows, std::size_t n_cols, ConstRows x, Rows y,
                   std::size_t n_tok) noexcept;

}  // namespace runnel
