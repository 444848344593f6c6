// The int8 dot of plain NEON: products in 16 bits, those of two steps added up (|w| <= 128 and |x| <= 127, so
// at most 32512), then pairs of them in 32 bits. Each row has two partial sums until the block ends.
#pragma once
#include "simd/int8/sums_arm.h"
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 2;
  static constexpr size_t decode_panels = 2;
  static constexpr size_t decode_ahead = 4096;
  static constexpr Cache streams_few_to = Cache::none;
  static constexpr bool reads_split = false;

  static int8x16_t load(const std::int8_t* p) noexcept { return vld1q_s8(p); }
  static int8x16_t inputs(const BlockI8& block, size_t t, size_t step) noexcept {
    return vreinterpretq_s8_s32(vdupq_n_s32(block.inputs(t, step)));
  }

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    int32x4_t sums[n_tok][n_vecs][2];  // of rows 0 and 1, rows 2 and 3 of a vector
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v][0] = sums[t][v][1] = sums_begin_by_two();
    }
    const auto add_step = [&](size_t step) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const int8x16_t w = load(block.weights(v / panel_vecs, step, v % panel_vecs));
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) {
          const int8x16_t x = inputs(block, t, step);
          sums[t][v][0] = vpadalq_s16(sums[t][v][0], vmull_s8(vget_low_s8(w), vget_low_s8(x)));
          sums[t][v][1] = vpadalq_s16(sums[t][v][1], vmull_high_s8(w, x));
        }
      }
    };
    const auto add_two_steps = [&](size_t step) {
      end_of_step();
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const int8x16_t w0 = load(block.weights(v / panel_vecs, step, v % panel_vecs));
        const int8x16_t w1 = load(block.weights(v / panel_vecs, step + 1, v % panel_vecs));
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) {
          const int8x16_t x0 = inputs(block, t, step);
          const int8x16_t x1 = inputs(block, t, step + 1);
          const int16x8_t low = vmull_s8(vget_low_s8(w0), vget_low_s8(x0));
          const int16x8_t high = vmull_high_s8(w0, x0);
          sums[t][v][0] = vpadalq_s16(sums[t][v][0], vmlal_s8(low, vget_low_s8(w1), vget_low_s8(x1)));
          sums[t][v][1] = vpadalq_s16(sums[t][v][1], vmlal_high_s8(high, w1, x1));
        }
      }
    };
    for_each_few<2>(n_steps, add_two_steps, add_step);
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v)
        take(t, v / panel_vecs, v % panel_vecs, on_base(vpaddq_s32(sums[t][v][0], sums[t][v][1])));
    }
  }
};

}  // namespace
}  // namespace runnel::simd
