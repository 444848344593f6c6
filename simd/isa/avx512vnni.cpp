// AVX-512 with dot products of bytes.
#include "simd/int16/matmul.h"
#include "simd/int16/peak.h"
#include "simd/int8/attention_dots.h"
#include "simd/int8/dot_vnni.h"
#include "simd/int8/factors_of_bytes.h"
#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_avx512vnni;
// 12 sums and what they add up to leave 8 registers; of 2 x 8 some sums lie in memory.
const Kernels kernels_avx512vnni{.peak_i8 = peak_i8,
                                 .peak_i16 = peak_i16,
                                 .reads_split_i8 = reads_split_i8<DotVnni<2, 6>>,
                                 .least_raised_i8 = never_raised,
                                 .matmul_i8 = matmul_i8<DotVnni<2, 6>>,
                                 .matmul_i16 = matmul_i16<2, 6>,
                                 .scores_i8 = scores_i8_dots<FactorsOfBytes>,
                                 .mix_i8 = mix_i8_dots<FactorsOfBytes>};

}  // namespace runnel::simd
