// Factors as two bytes each, 256 high + low, for the instructions that multiply four bytes by four and add
// up.
#pragma once
#include "simd/int8/bytes.h"
#include "simd/int8/factors.h"

namespace runnel::simd {
namespace {

// One of the two is unsigned on x86: 128 is added to what is cached, and a sum starts at -128 times the sum
// of the factors' bytes, whole vectors of them.
#if defined(__x86_64__)
inline I32 multiplicand(I32 v) noexcept { return v ^ I32(static_cast<std::int32_t>(0x80808080u)); }
inline std::int32_t start_of_sum(const std::int8_t* factors, size_t n) noexcept {
  I32 sums(0);
  for (size_t j = 0; j < n; j += sizeof(Bytes)) sums = add_dots(sums, all_ones(), load_i32(factors + j));
  return -128 * xsimd::hadd(sums);
}
#else
inline I32 multiplicand(I32 v) noexcept { return v; }
inline std::int32_t start_of_sum(const std::int8_t*, size_t) noexcept { return 0; }
#endif

class FactorsOfBytes {
 public:
  // With two sums for each vector of a line, what the registers hold.
  static constexpr size_t tile_rows = lanes == 16 ? 8 : lanes == 8 ? 2 : 3;

  void put(size_t j, std::int32_t x) noexcept {
    high_[j] = static_cast<std::int8_t>((x + 128) >> 8);
    low_[j] = static_cast<std::int8_t>(x);
  }
  void finish(size_t n) noexcept {
    for (; n % sizeof(Bytes) != 0; ++n) high_[n] = low_[n] = 0;
    start_high_ = start_of_sum(high_, n);
    start_low_ = start_of_sum(low_, n);
  }

  template <size_t n_rows, class Line>
  static void multiply(I32 (&dots)[n_rows][line_vecs], const Factors<FactorsOfBytes>* rows, size_t n_steps,
                       Line line) noexcept {
    Sums high[n_rows][line_vecs], low[n_rows][line_vecs];
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) {
        high[i][v] = Sums{} + rows[i].numbers.start_high_;
        low[i][v] = Sums{} + rows[i].numbers.start_low_;
      }
    }
    for (size_t step = 0; step < n_steps; ++step) {
      const std::int8_t* const p = line(step);
      I32 bytes[line_vecs];
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) bytes[v] =
          multiplicand(load_i32(p + v * lanes * dot_bytes));
      RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
        const I32 h = four_of(rows[i].numbers.high_ + step * dot_bytes);
        RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) add_to(high[i][v], bytes[v], h);
        const I32 l = four_of(rows[i].numbers.low_ + step * dot_bytes);
        RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) add_to(low[i][v], bytes[v], l);
      }
    }
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) dots[i][v] =
          I32((Bytes)(high[i][v] * 256 + low[i][v]));
    }
  }

 private:
  // Not Bytes: GCC 12 would keep each sum twice through a loop, as 64 and as 32 bit numbers.
  using Sums = std::int32_t __attribute__((vector_size(sizeof(Bytes))));
  static void add_to(Sums& sums, I32 a, I32 b) noexcept { sums = (Sums)add_dots((Bytes)sums, a, b); }

  static I32 four_of(const std::int8_t* p) noexcept {
    std::int32_t four = 0;
    __builtin_memcpy(&four, p, sizeof four);
    return I32(four);
  }

  alignas(64) std::int8_t high_[max_factors];
  alignas(64) std::int8_t low_[max_factors];
  std::int32_t start_high_, start_low_;
};

}  // namespace
}  // namespace runnel::simd
