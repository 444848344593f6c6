// Factors of 16 bits as they are, for AVX2 and AVX-512 without dot products of bytes: what is cached is
// widened, and one instruction multiplies pairs and adds them up.
#pragma once
#include "simd/i16.h"
#include "simd/int8/factors.h"

namespace runnel::simd {
namespace {

#if defined(__AVX512BW__)
inline I16 widen(const std::int8_t* p) noexcept {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// Neighbours added up, those of a before those of b.
inline I32 add_neighbours(I16 a, I16 b) noexcept {
  const I16 even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const I16 odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
}
#elif defined(__AVX2__)
inline I16 widen(const std::int8_t* p) noexcept {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// Neighbours added up, those of a before those of b.
inline I32 add_neighbours(I16 a, I16 b) noexcept {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
}
#endif

inline I16 four_i16(const std::int16_t* p) noexcept {
  std::int64_t four = 0;
  __builtin_memcpy(&four, p, sizeof four);
  return xsimd::batch<std::int64_t>(four);
}

class FactorsOfI16 {
 public:
  // With two sums for each vector of a line, what the registers hold.
  static constexpr size_t line_rows = lanes == 16 ? 8 : 2;
  static constexpr size_t wide_rows = line_rows, wide_lines = 1;  // widened for fewer rows they cost more

  void put(size_t j, I32 x) noexcept { narrow_to_i16(numbers_ + j, x); }
  void finish(std::int32_t) noexcept {}

  template <size_t n_rows, class Line>
  static void multiply(I32 (&dots)[n_rows][line_vecs], const Factors<FactorsOfI16>* rows, size_t n_steps,
                       Line line) noexcept {
    constexpr size_t n_vecs = 2 * line_vecs;  // of int16; in their sums there are two neighbours of each dot
    PairSums sums[n_rows][n_vecs];
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) sums[i][v] = PairSums{};
    }
    for (size_t step = 0; step < n_steps; ++step) {
      const std::int8_t* const p = line(step);
      I16 bytes[n_vecs];
      RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) bytes[v] = widen(p + v * lanes / 2 * dot_bytes);
      RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
        const I16 x = four_i16(rows[i].numbers.numbers_ + step * dot_bytes);
        RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) sums[i][v] += (PairSums)pair_products(bytes[v], x);
      }
    }
    RUNNEL_UNROLL for (size_t i = 0; i < n_rows; ++i) {
      RUNNEL_UNROLL for (size_t v = 0; v < line_vecs; ++v) dots[i][v] =
          add_neighbours((I16)sums[i][2 * v], (I16)sums[i][2 * v + 1]);
    }
  }

 private:
  alignas(64) std::int16_t numbers_[max_factors];
};

}  // namespace
}  // namespace runnel::simd
