// Int8 matrix products of ARMv8.6: one instruction multiplies 2 rows by 2 tokens over 8 inputs. Two steps of
// a panel are zipped into pairs of rows with 8 inputs each; tokens go in pairs, an odd one with itself.
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 4;
  static constexpr size_t decode_panels = 2;

  // 8 inputs of tokens t and t + 1; of the first step alone, with zeros, where the second is not there.
  template <size_t n_tok>
  static int8x16_t inputs(const BlockI8& block, size_t t, size_t step, bool both) noexcept {
    const auto eight = [&](size_t token) {
      const int32x2_t first = vdup_n_s32(block.inputs(token, step));
      return vset_lane_s32(both ? block.inputs(token, step + 1) : 0, first, 1);
    };
    return vreinterpretq_s8_s32(vcombine_s32(eight(t), eight(t + 1 < n_tok ? t + 1 : t)));
  }

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    constexpr size_t n_pairs = (n_tok + 1) / 2;
    int32x4_t sums[n_pairs][n_vecs][2];  // [row, token] 2 by 2, of rows 0 and 1, rows 2 and 3 of a vector
    RUNNEL_UNROLL
    for (size_t i = 0; i < n_pairs; ++i) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[i][v][0] = sums[i][v][1] = vdupq_n_s32(0);
    }
    const auto add = [&](size_t step, bool both) {
      int8x16_t x[n_pairs];
      RUNNEL_UNROLL
      for (size_t i = 0; i < n_pairs; ++i) x[i] = inputs<n_tok>(block, 2 * i, step, both);
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const I32 w0 = load_i32(block.weights(v / panel_vecs, step, v % panel_vecs));
        const I32 w1 = both ? load_i32(block.weights(v / panel_vecs, step + 1, v % panel_vecs)) : I32(0);
        const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(w0, w1));
        const int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(w0, w1));
        RUNNEL_UNROLL
        for (size_t i = 0; i < n_pairs; ++i) {
          sums[i][v][0] = vmmlaq_s32(sums[i][v][0], low, x[i]);
          sums[i][v][1] = vmmlaq_s32(sums[i][v][1], high, x[i]);
        }
      }
    };
    for_each_pair(
        n_steps, [&](size_t step) { add(step, true); }, [&](size_t step) { add(step, false); });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const auto& pair = sums[t / 2][v];
        take(t, v / panel_vecs, v % panel_vecs,
             t % 2 == 0 ? vuzp1q_s32(pair[0], pair[1]) : vuzp2q_s32(pair[0], pair[1]));
      }
    }
  }
};

}  // namespace
}  // namespace runnel::simd

#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {

extern const Kernels kernels_i8mm;
const Kernels kernels_i8mm{.peak_i8 = peak_i8, .matmul_i8 = matmul_i8<Dot>};

}  // namespace runnel::simd
