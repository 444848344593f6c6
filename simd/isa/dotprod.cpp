// Dot products of ARMv8.2: one instruction multiplies 4 by 4 signed bytes in each of 4 lanes and adds them
// up.
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 4;
  static constexpr size_t decode_panels = 2;

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    int32x4_t sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = vdupq_n_s32(0);
    }
    for_each_step(n_steps, [&](size_t step) {
      int8x16_t x[n_tok];
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) x[t] = vreinterpretq_s8_s32(vdupq_n_s32(block.inputs(t, step)));
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const int8x16_t w = vld1q_s8(block.weights(v / panel_vecs, step, v % panel_vecs));
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) sums[t][v] = vdotq_s32(sums[t][v], w, x[t]);
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

extern const Kernels kernels_dotprod;
const Kernels kernels_dotprod{.peak_i8 = peak_i8, .matmul_i8 = matmul_i8<Dot>};

}  // namespace runnel::simd
