// ARMv8.2 with dot products of bytes.
#include "simd/int8/dot_dotprod.h"
#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_dotprod;
const Kernels kernels_dotprod{.peak_i8 = peak_i8, .matmul_i8 = matmul_i8<DotSdot>};

}  // namespace runnel::simd
