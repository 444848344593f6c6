// Factors as two bytes each, 256 high + low, for the instructions that multiply four bytes by four and add
// up.
#pragma once
#include "simd/int8/bytes.h"
#include "simd/int8/factors.h"

namespace runnel::simd {
namespace {

// One of the two is unsigned on x86: 128 is added to what is cached, and sums start at -128 times the sum of
// the factors. Four factors meet those of every lane: x86 wants them in every lane, ARM in one.
#if defined(__x86_64__)
inline I32 multiplicand(I32 v) noexcept { return v ^ I32(static_cast<std::int32_t>(0x80808080u)); }
constexpr std::int32_t added_to_bytes = 128;
using FourBytes = I32;
inline FourBytes four_bytes(const std::int8_t* p) noexcept { return four_of(p); }
inline Bytes add_dots_of_four(Bytes sum, I32 a, FourBytes b) noexcept { return add_dots(sum, a, b); }
#else
inline I32 multiplicand(I32 v) noexcept { return v; }
constexpr std::int32_t added_to_bytes = 0;
using FourBytes = int8x8_t;  // and four zeros
inline FourBytes four_bytes(const std::int8_t* p) noexcept {
  return vreinterpret_s8_s32(int32x2_t{four_at(p), 0});
}
inline Bytes add_dots_of_four(Bytes sum, I32 a, FourBytes b) noexcept {
  return vdotq_lane_s32(sum, vreinterpretq_s8_s32(a), b, 0);
}
#endif

class FactorsOfBytes {
 public:
  // With two sums for each vector of a line, what the registers hold.
  static constexpr size_t line_rows = lanes == 16 ? 8 : lanes == 8 ? 2 : 3;
  static constexpr size_t wide_rows = lanes == 16 ? 3 : line_rows, wide_lines = lanes == 16 ? 4 : 1;

  void put(size_t j, I32 x) noexcept {
    narrow_to_bytes(high_ + j, high_bytes(x));
    narrow_to_bytes(low_ + j, x);
  }
  void finish(std::int32_t sum) noexcept { start_ = -added_to_bytes * sum; }

  template <size_t n_rows, size_t n_vecs, class Line>
  static void multiply(I32 (&dots)[n_rows][n_vecs], const Factors<FactorsOfBytes>* rows, size_t n_steps,
                       Line line) noexcept {
    // An addition to a sum waits for the one before: few sums are taken in several parts.
    constexpr size_t n_sums = 2 * n_rows * n_vecs;
    constexpr size_t n_parts = n_sums <= 2 ? 4 : n_sums <= 6 ? 2 : 1;
    Sums high[n_parts][n_rows][n_vecs], low[n_parts][n_rows][n_vecs];
    RUNNEL_UNROLL for (size_t part = 0; part < n_parts; ++part) {
      RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
        RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) {
          high[part][i][v] = Sums{};
          low[part][i][v] = Sums{} + (part == 0 ? rows[i].numbers.start_ : 0);
        }
      }
    }
    const auto add = [&](size_t step, size_t part) {
      const std::int8_t* const p = line(step);
      I32 bytes[n_vecs];
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) bytes[v] =
          multiplicand(load_i32(p + v * lanes * dot_bytes));
      RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
        const FourBytes h = four_bytes(rows[i].numbers.high_ + step * dot_bytes);
        RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) add_to(high[part][i][v], bytes[v], h);
        const FourBytes l = four_bytes(rows[i].numbers.low_ + step * dot_bytes);
        RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) add_to(low[part][i][v], bytes[v], l);
      }
    };
    size_t step = 0;
    for (; step + n_parts <= n_steps; step += n_parts) {
      RUNNEL_UNROLL for (size_t part = 0; part < n_parts; ++part) add(step + part, part);
    }
    if constexpr (n_parts > 1) {
      for (; step < n_steps; ++step) add(step, 0);
    }
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) {
        Sums h = high[0][i][v], l = low[0][i][v];
        RUNNEL_UNROLL for (size_t part = 1; part < n_parts; ++part) {
          h += high[part][i][v];
          l += low[part][i][v];
        }
        dots[i][v] = I32((Bytes)(h * 256 + l));
      }
    }
  }

 private:
  // Not Bytes: GCC 12 would keep each sum twice through a loop, as 64 and as 32 bit numbers.
  using Sums = std::int32_t __attribute__((vector_size(sizeof(Bytes))));
  static void add_to(Sums& sums, I32 a, FourBytes b) noexcept {
    sums = (Sums)add_dots_of_four((Bytes)sums, a, b);
  }

  alignas(64) std::int8_t high_[max_factors];
  alignas(64) std::int8_t low_[max_factors];
  std::int32_t start_;
};

}  // namespace
}  // namespace runnel::simd
