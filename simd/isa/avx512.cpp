// AVX-512 F, BW, CD, DQ, VL: vectors of 16 floats.
#include "simd/int16/kernels.h"
#include "simd/int8/attention_dots.h"
#include "simd/int8/factors_of_i16.h"
#include "simd/int8/inputs_of_i16.h"
#include "simd/int8/matvec_q8_0.h"
#include "simd/vector_kernels.h"

namespace runnel::simd {
namespace {

constexpr Kernels with_own() noexcept {
  Kernels kernels = vector_kernels;
  kernels.matvec_q8_0 = matvec_q8_0_i16<InputsOfI16>;
  kernels.scores_i8 = scores_i8_dots<FactorsOfI16>;
  kernels.mix_i8 = mix_i8_dots<FactorsOfI16>;
  with_i16<2, 6>(kernels);
  return kernels;
}

}  // namespace

extern const Kernels kernels_avx512;
const Kernels kernels_avx512 = with_own();

}  // namespace runnel::simd
