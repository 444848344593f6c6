// The int8 dot of AVX2: maddubs multiplies unsigned by signed bytes and adds pairs up in 16 bits, so the
// weights give their sign to the activations. |w| <= 128 and |x| <= 127, so a pair is at most 32512: nothing
// saturates.
#pragma once
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 4;
  static constexpr size_t decode_panels = 2;
  static constexpr size_t decode_ahead = 4096;

  // GCC 12 would put all additions of a block behind its last product, and the products in memory till then.
  static void added_up(__m256i& sum) noexcept { __asm__("" : "+x"(sum)); }

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = _mm256_setzero_si256();
    }
    for_each_step(n_steps, [&](size_t step) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const __m256i w = load_i32(block.weights(v / panel_vecs, step, v % panel_vecs));
        const __m256i magnitudes = _mm256_abs_epi8(w);
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) {
          const __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(block.inputs(t, step)), w);
          const __m256i dots = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, x), ones);
          sums[t][v] = _mm256_add_epi32(sums[t][v], dots);
          added_up(sums[t][v]);
        }
      }
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) take(t, v / panel_vecs, v % panel_vecs, sums[t][v]);
    }
  }
};

}  // namespace
}  // namespace runnel::simd
