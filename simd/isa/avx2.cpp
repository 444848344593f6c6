// AVX2, FMA, F16C: vectors of 8 floats.
#include "simd/float_kernels.h"

namespace runnel::simd {

extern const Kernels kernels_avx2;
const Kernels kernels_avx2 = float_kernels;

}  // namespace runnel::simd
