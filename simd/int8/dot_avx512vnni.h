// The int8 dot of AVX-512 VNNI: one instruction multiplies 4 unsigned by 4 signed bytes in each of 16 lanes
// and adds them up. Weights are made unsigned by adding 128; the sums start at -128 times the sum of the
// activations' codes.
#pragma once
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct DotVnni {
  static constexpr size_t tile_panels = 2;
  static constexpr size_t tile_tokens = 8;
  static constexpr size_t decode_panels = 4;

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    const __m512i sign_bits = _mm512_set1_epi8(-128);
    __m512i sums[n_tok][n_panels];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) sums[t][p] = _mm512_set1_epi32(block.offset(t));
    }
    for_each_step(n_steps, [&](size_t step) {
      __m512i w[n_panels];
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p)
        w[p] = _mm512_xor_si512(_mm512_loadu_si512(block.weights(p, step, 0)), sign_bits);
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const __m512i x = _mm512_set1_epi32(block.inputs(t, step));
        RUNNEL_UNROLL
        for (size_t p = 0; p < n_panels; ++p) sums[t][p] = _mm512_dpbusd_epi32(sums[t][p], w[p], x);
      }
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) take(t, p, 0, sums[t][p]);
    }
  }
};

}  // namespace
}  // namespace runnel::simd
