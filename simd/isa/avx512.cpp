// AVX-512 F, BW, CD, DQ, VL: vectors of 16 floats.
#include "simd/float_kernels.h"

namespace runnel::simd {

extern const Kernels kernels_avx512;
const Kernels kernels_avx512 = float_kernels;

}  // namespace runnel::simd
