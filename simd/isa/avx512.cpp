// AVX-512 F, BW, CD, DQ, VL: vectors of 16 floats.
#include "simd/float_kernels.h"
#include "simd/int8/attention_dots.h"
#include "simd/int8/factors_of_words.h"
#include "simd/int8/inputs_of_words.h"
#include "simd/int8/matvec_q8_0.h"
#include "simd/int8/pack.h"
#include "simd/int8/quantize.h"

namespace runnel::simd {
namespace {

constexpr Kernels with_int8() noexcept {
  Kernels kernels = float_kernels;
  kernels.matvec_q8_0 = matvec_q8_0_i16<InputsOfWords>;
  kernels.pack_q8_0 = pack_q8_0;
  kernels.quantize_i8 = quantize_i8;
  kernels.scores_i8 = scores_i8_dots<FactorsOfWords>;
  kernels.mix_i8 = mix_i8_dots<FactorsOfWords>;
  return kernels;
}

}  // namespace

extern const Kernels kernels_avx512;
const Kernels kernels_avx512 = with_int8();

}  // namespace runnel::simd
