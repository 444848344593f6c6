// The int8 dot of ARMv8.2: one instruction multiplies the 4 bytes of each of 4 rows by 4 inputs of a token
// and adds them up. A register has 16 inputs of a token, for 4 steps.
#pragma once
#include "simd/int8/sums_arm.h"
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct DotSdot {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = 4;
  static constexpr size_t decode_panels = 2;
  static constexpr size_t decode_ahead = 4096;
  static constexpr Cache streams_few_to = Cache::none;
  static constexpr bool reads_split = false;

  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    constexpr size_t at_once = n_tok == 1 ? n_vecs : most_vecs;
    RUNNEL_UNROLL
    for (size_t v = 0; v < n_vecs; v += at_once) multiply<at_once, n_tok>(block, v, n_steps, take);
  }

 private:
  // Of several tokens at a time: the sums of a whole panel would leave no registers for those of other
  // blocks.
  static constexpr size_t most_vecs = 2;
  static_assert(panel_vecs % most_vecs == 0);

  // Vectors of rows from `first` on.
  template <size_t n_vecs, size_t n_tok, class Steps, class Take>
  static void multiply(const BlockI8& block, size_t first, Steps n_steps, Take take) noexcept {
    int32x4_t sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = sums_begin();
    }
    // The inputs of the step are four of the 16 in x[t]: those of this lane.
    const auto add = [&](size_t step, const int8x16_t(&x)[n_tok], auto lane) {
      end_of_step();
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) {
        const size_t at = first + v;
        const int8x16_t w = vld1q_s8(block.weights(at / panel_vecs, step, at % panel_vecs));
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t)
          sums[t][v] = vdotq_laneq_s32(sums[t][v], w, x[t], decltype(lane)::value);
      }
    };
    const auto add_four = [&](size_t step) {
      int8x16_t x[n_tok];
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) x[t] = vld1q_s8(block.inputs_from(t, step));
      add(step, x, std::integral_constant<int, 0>());
      add(step + 1, x, std::integral_constant<int, 1>());
      add(step + 2, x, std::integral_constant<int, 2>());
      add(step + 3, x, std::integral_constant<int, 3>());
    };
    const auto add_one = [&](size_t step) {
      int8x16_t x[n_tok];
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) x[t] = vreinterpretq_s8_s32(vdupq_n_s32(block.inputs(t, step)));
      add(step, x, std::integral_constant<int, 0>());
    };
    for_each_few<4>(n_steps, add_four, add_one);
    end_of_step();
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v)
        take(t, (first + v) / panel_vecs, (first + v) % panel_vecs, on_base(sums[t][v]));
    }
    end_of_step();
  }
};

}  // namespace
}  // namespace runnel::simd
