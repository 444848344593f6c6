// AVX2, FMA, F16C: vectors of 8 floats.
#include "simd/int16/kernels.h"
#include "simd/int8/attention_dots.h"
#include "simd/int8/dot_avx2.h"
#include "simd/int8/factors_of_i16.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matvec_q8_0_fours.h"
#include "simd/vector_kernels.h"

namespace runnel::simd {
namespace {

constexpr Kernels with_own() noexcept {
  Kernels kernels = vector_kernels;
  kernels.matvec_q8_0 = matvec_q8_0_fours;
  kernels.matmul_i8 = matmul_i8<Dot>;
  kernels.reads_split_i8 = reads_split_i8<Dot>;
  kernels.least_raised_i8 = never_raised;
  kernels.scores_i8 = scores_i8_dots<FactorsOfI16>;
  kernels.mix_i8 = mix_i8_dots<FactorsOfI16>;
  with_i16<1, 4>(kernels);
  return kernels;
}

}  // namespace

extern const Kernels kernels_avx2;
const Kernels kernels_avx2 = with_own();

}  // namespace runnel::simd
