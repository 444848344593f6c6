// ARMv8.2 with dot products of bytes.
#include "simd/int8/attention_dots.h"
#include "simd/int8/dot_dotprod.h"
#include "simd/int8/factors_of_bytes.h"
#include "simd/int8/inputs_of_bytes.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matvec_q8_0.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_dotprod;
const Kernels kernels_dotprod{.matvec_q8_0 = matvec_q8_0_i16<InputsOfBytes>,
                              .peak_i8 = peak_i8,
                              .reads_split_i8 = reads_split_i8<DotSdot>,
                              .least_raised_i8 = never_raised,
                              .matmul_i8 = matmul_i8<DotSdot>,
                              .scores_i8 = scores_i8_dots<FactorsOfBytes>,
                              .mix_i8 = mix_i8_dots<FactorsOfBytes>};

}  // namespace runnel::simd
