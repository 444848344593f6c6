// AVX-VNNI: avx512vnni.cpp with vectors of 8 lanes, two to a panel.
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 4;
  static constexpr size_t decode_panels = 4;

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    const __m256i sign_bits = _mm256_set1_epi8(-128);
    __m256i sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = _mm256_set1_epi32(block.offset(t));
    }
    for_each_step(n_steps, [&](size_t step) {
      __m256i w[n_vecs];
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v)
        w[v] = _mm256_xor_si256(load_i32(block.weights(v / panel_vecs, step, v % panel_vecs)), sign_bits);
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const __m256i x = _mm256_set1_epi32(block.inputs(t, step));
        RUNNEL_UNROLL
        for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = _mm256_dpbusd_avx_epi32(sums[t][v], w[v], x);
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

#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_avxvnni;
const Kernels kernels_avxvnni{.peak_i8 = peak_i8, .matmul_i8 = matmul_i8<Dot>};

}  // namespace runnel::simd
