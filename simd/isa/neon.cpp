// NEON of 64-bit ARM: vectors of 4 floats.
#include "simd/float_kernels.h"

namespace runnel::simd {

extern const Kernels kernels_neon;
const Kernels kernels_neon = float_kernels;

}  // namespace runnel::simd
