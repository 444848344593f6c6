// NEON of 64-bit ARM: vectors of 4 floats.
#include "simd/int8/dot_neon.h"
#include "simd/int8/inputs_of_i16.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matvec_q8_0.h"
#include "simd/vector_kernels.h"

namespace runnel::simd {
namespace {

constexpr Kernels with_own() noexcept {
  Kernels kernels = vector_kernels;
  kernels.matvec_q8_0 = matvec_q8_0_i16<InputsOfI16>;
  kernels.reads_split_i8 = reads_split_i8<Dot>;
  kernels.least_raised_i8 = never_raised;
  kernels.matmul_i8 = matmul_i8<Dot>;
  return kernels;
}

}  // namespace

extern const Kernels kernels_neon;
const Kernels kernels_neon = with_own();

}  // namespace runnel::simd
