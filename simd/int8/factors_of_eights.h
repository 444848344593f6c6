// Factors as two bytes each, 256 high + low, for the instruction of ARMv8.6 that multiplies two rows of eight
// bytes by two others: two keys, or columns, meet the high and the low bytes of one row of factors. For that
// two steps are zipped, once for all rows. The same bits as by FactorsOfBytes.
#pragma once
#include "simd/int8/factors.h"
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

class FactorsOfEights {
 public:
  // With two vectors of sums for each of a line, what the registers hold.
  static constexpr size_t line_rows = 3;
  static constexpr size_t wide_rows = line_rows, wide_lines = 1;

  void put(size_t j, I32 x) noexcept {
    std::int8_t* const high = bytes_ + 2 * (j - j % side) + j % side;
    if (j % side == 0) vst1q_s8(high, vdupq_n_s8(0));  // the last eight may be four
    narrow_to_bytes(high, high_bytes(x));
    narrow_to_bytes(high + side, x);
  }
  void finish(std::int32_t) noexcept {}

  template <size_t n_rows, class Line>
  static void multiply(I32 (&dots)[n_rows][line_vecs], const Factors<FactorsOfEights>* rows, size_t n_steps,
                       Line line) noexcept {
    int32x4_t sums[n_rows][line_vecs][2];  // high and low in turns, of two keys
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) sums[i][v][0] = sums[i][v][1] = vdupq_n_s32(0);
    }
    // four(v): vector v of the step after.
    const auto add = [&](size_t step, auto four) {
      const std::int8_t* const p = line(step);
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) {
        end_of_step();
        const int32x4x2_t eights = vzipq_s32(load_i32(p + v * lanes * dot_bytes), four(v));
        RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
          const int8x16_t x = vld1q_s8(rows[i].numbers.bytes_ + 2 * step * dot_bytes);
          RUNNEL_UNROLL for (size_t half = 0; half < 2; ++half) sums[i][v][half] =
              vmmlaq_s32(sums[i][v][half], vreinterpretq_s8_s32(eights.val[half]), x);
        }
      }
    };
    size_t step = 0;
    for (; step + 2 <= n_steps; step += 2) {
      const std::int8_t* const next = line(step + 1);
      add(step, [&](size_t v) { return load_i32(next + v * lanes * dot_bytes); });
    }
    if (step < n_steps) add(step, [](size_t) { return I32(0); });
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) {
        const int32x4x2_t high_low = vuzpq_s32(sums[i][v][0], sums[i][v][1]);
        dots[i][v] = vaddq_s32(vshlq_n_s32(high_low.val[0], 8), high_low.val[1]);
      }
    }
  }

 private:
  static constexpr size_t side = 8;  // bytes that lie side by side

  alignas(64) std::int8_t bytes_[2 * max_factors];
};

}  // namespace
}  // namespace runnel::simd
