// NEON of 64-bit ARM: vectors of 4 floats.
#include "simd/float_kernels.h"
#include "simd/int8/dot_neon.h"
#include "simd/int8/inputs_of_words.h"
#include "simd/int8/matmul.h"
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
  kernels.matmul_i8 = matmul_i8<Dot>;
  return kernels;
}

}  // namespace

extern const Kernels kernels_neon;
const Kernels kernels_neon = with_int8();

}  // namespace runnel::simd
