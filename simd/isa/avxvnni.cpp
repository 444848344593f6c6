// AVX2 with dot products of bytes: vectors of 8 lanes, two to a panel.
#include "simd/int8/dot_vnni.h"
#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_avxvnni;
const Kernels kernels_avxvnni{.peak_i8 = peak_i8, .matmul_i8 = matmul_i8<DotVnni<1, 4>>};

}  // namespace runnel::simd
