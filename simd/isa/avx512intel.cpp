// What Intel's processors do with AVX-512 VNNI in another way (tests/bench/experiments.md): they read weights
// faster in more streams, prefetched further ahead, and multiply many tokens without inverting signs on the
// way. The same bits as avx512vnni, and of Q8_0 rows as avx2.
#include "simd/int8/dot_raised.h"
#include "simd/int8/dot_vnni.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matvec_q8_0_fours.h"

namespace runnel::simd {
namespace {

using Few = DotVnniIntel<2, 6>;
using Many = DotRaised<2, 8>;

void matvec_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  multiply_fours<matvec_rows, prefetch_bytes_q8_0, 0>(y, w, n_rows, n_cols / quant::BlockQ8_0::size, x);
}

size_t least_raised() noexcept { return few_tokens<Few> + 1; }

void matmul_i8_intel(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                     const quant::PanelsI8& w, const void* next) noexcept {
  if (x.raised)
    matmul_i8<Many>(y, y_stride, x, n_tok, w, next);
  else
    matmul_i8<Few>(y, y_stride, x, n_tok, w, next);
}

}  // namespace

extern const Kernels kernels_avx512intel;
const Kernels kernels_avx512intel{.matvec_q8_0 = matvec_q8_0,
                                  .reads_split_i8 = reads_split_i8<Few>,
                                  .least_raised_i8 = least_raised,
                                  .matmul_i8 = matmul_i8_intel};

}  // namespace runnel::simd
