// AVX-512 F, BW, CD, DQ, VL: vectors of 16 floats.
#include "simd/float_kernels.h"
#include "simd/int8/quantize.h"

namespace runnel::simd {
namespace {

constexpr Kernels with_int8() noexcept {
  Kernels kernels = float_kernels;
  kernels.quantize_i8 = quantize_i8;
  return kernels;
}

}  // namespace

extern const Kernels kernels_avx512;
const Kernels kernels_avx512 = with_int8();

}  // namespace runnel::simd
