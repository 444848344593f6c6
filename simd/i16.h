// Vectors of int16, and the instruction that multiplies them: of AVX2 and AVX-512, with or without VNNI.
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// Sums of products of int16. Not I16: GCC 12 would keep each sum twice through a loop, as 64 and as 32 bit
// numbers.
using PairSums = std::int32_t __attribute__((vector_size(lanes * sizeof(std::int32_t))));

// GCC 12 would put all additions of a loop's round behind its last product, and the products in memory till
// then.
template <class Register>
inline void added_up(Register& sums) noexcept {
  __asm__("" : "+v"(sums));
}

// Different on each instruction set:
//   pair_products(a, b)     a[2i] b[2i] + a[2i + 1] b[2i + 1] in int32 lanes
//   round_to_i16(a, b)      to nearest even, in the order of the instruction: four of a, four of b, the next
//                           four of a ...
//   add_magnitudes(a, b)    a + |b|, without sign
//   smaller, larger(a, b)   of numbers without sign

#if defined(__AVX512BW__)
using I16 = __m512i;
inline I16 broadcast_i16(std::int16_t x) noexcept { return _mm512_set1_epi16(x); }
inline I16 pair_products(I16 a, I16 b) noexcept { return _mm512_madd_epi16(a, b); }
inline I16 round_to_i16(F32 a, F32 b) noexcept {
  return _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
}
inline F32 as_floats(I16 v) noexcept { return _mm512_castsi512_ps(v); }
inline I16 as_i16(F32 v) noexcept { return _mm512_castps_si512(v); }
inline I16 add_magnitudes(I16 a, I16 b) noexcept { return _mm512_add_epi16(a, _mm512_abs_epi16(b)); }
inline I16 smaller(I16 a, I16 b) noexcept { return _mm512_min_epu16(a, b); }
inline I16 larger(I16 a, I16 b) noexcept { return _mm512_max_epu16(a, b); }
#elif defined(__AVX2__)
using I16 = __m256i;
inline I16 broadcast_i16(std::int16_t x) noexcept { return _mm256_set1_epi16(x); }
inline I16 pair_products(I16 a, I16 b) noexcept { return _mm256_madd_epi16(a, b); }
inline I16 round_to_i16(F32 a, F32 b) noexcept {
  return _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
}
inline F32 as_floats(I16 v) noexcept { return _mm256_castsi256_ps(v); }
inline I16 as_i16(F32 v) noexcept { return _mm256_castps_si256(v); }
inline I16 add_magnitudes(I16 a, I16 b) noexcept { return _mm256_add_epi16(a, _mm256_abs_epi16(b)); }
inline I16 smaller(I16 a, I16 b) noexcept { return _mm256_min_epu16(a, b); }
inline I16 larger(I16 a, I16 b) noexcept { return _mm256_max_epu16(a, b); }
#endif

// sum + pair_products(a, b)
inline PairSums add_pairs(PairSums sum, I16 a, I16 b) noexcept {
#if defined(__AVX512VNNI__)
  return (PairSums)_mm512_dpwssd_epi32((I16)sum, a, b);
#elif defined(__AVXVNNI__)
  return (PairSums)_mm256_dpwssd_avx_epi32((I16)sum, a, b);
#else
  sum += (PairSums)pair_products(a, b);
  added_up(sum);
  return sum;
#endif
}

// Without sign.
inline std::uint16_t smallest(I16 v) noexcept {
  std::uint16_t numbers[2 * lanes];
  __builtin_memcpy(numbers, &v, sizeof v);
  std::uint16_t least = numbers[0];
  for (const std::uint16_t number : numbers) least = number < least ? number : least;
  return least;
}

}  // namespace
}  // namespace runnel::simd
