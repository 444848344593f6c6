// AVX2 with dot products of bytes: vectors of 8 lanes, two to a panel.
#include "simd/int16/matmul.h"
#include "simd/int16/peak.h"
#include "simd/int8/attention_dots.h"
#include "simd/int8/dot_vnni.h"
#include "simd/int8/factors_of_bytes.h"
#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {
namespace {

// Some numbers of a tile of so many tokens lie in memory, but smaller ones wait for their sums.
constexpr size_t tile_tokens = 6;

using Dot = DotVnniIntel<1, tile_tokens>;

}  // namespace

extern const Kernels kernels_avxvnni;
const Kernels kernels_avxvnni{.peak_i8 = peak_i8,
                              .peak_i16 = peak_i16,
                              .reads_split_i8 = reads_split_i8<Dot>,
                              .least_raised_i8 = never_raised,
                              .matmul_i8 = matmul_i8<Dot>,
                              .matmul_i16 = matmul_i16<1, tile_tokens>,
                              .scores_i8 = scores_i8_dots<FactorsOfBytes>,
                              .mix_i8 = mix_i8_dots<FactorsOfBytes>};

}  // namespace runnel::simd
