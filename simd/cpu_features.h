// What kernel rows can need of a CPU. cpu_features() (kernels.h) gives the set that this one has.
#pragma once
#include <cstdint>

namespace runnel::simd {

enum CpuFeature : std::uint32_t {
  no_cpu_feature = 0,
  cpu_avx2 = 1u << 0,
  cpu_fma = 1u << 1,
  cpu_f16c = 1u << 2,
  cpu_avx512 = 1u << 3,  // F, BW, CD, DQ and VL
  cpu_avxvnni = 1u << 4,
  cpu_avx512vnni = 1u << 5,
  cpu_dotprod = 1u << 6,
  cpu_i8mm = 1u << 7,
  cpu_amx = 1u << 8,          // tiles of int8 and of bf16
  cpu_zen4 = 1u << 9,         // not what it can do but how its memory wants to be read
  cpu_avx512bf16 = 1u << 10,  // and VBMI
  cpu_intel = 1u << 11,       // not what it can do but how it wants to be used
};

}  // namespace runnel::simd
