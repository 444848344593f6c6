// Vectors of bytes, and the instruction that multiplies them (or the shortest sequence there is).
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// sum + the dots of each four bytes of a and b, in int32 lanes (on i8mm of each 2x8 by 8x2).
#if defined(__AVX512BW__)
using Bytes = __m512i;
inline Bytes all_ones() noexcept { return _mm512_set1_epi8(1); }
inline Bytes no_sums() noexcept { return _mm512_setzero_si512(); }
inline Bytes add_dots(Bytes sum, Bytes a, Bytes b) noexcept {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sum, a, b);
#else
  const __m512i pairs = _mm512_maddubs_epi16(a, b);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
#elif defined(__AVX2__)
using Bytes = __m256i;
inline Bytes all_ones() noexcept { return _mm256_set1_epi8(1); }
inline Bytes no_sums() noexcept { return _mm256_setzero_si256(); }
inline Bytes add_dots(Bytes sum, Bytes a, Bytes b) noexcept {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, a, b);
#else
  const __m256i pairs = _mm256_maddubs_epi16(a, b);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}
#elif defined(__aarch64__)
using Bytes = int32x4_t;
inline Bytes all_ones() noexcept { return vdupq_n_s32(0x01010101); }
inline Bytes no_sums() noexcept { return vdupq_n_s32(0); }
inline Bytes add_dots(Bytes sum, Bytes a, Bytes b) noexcept {
  const int8x16_t x = vreinterpretq_s8_s32(a);
  const int8x16_t y = vreinterpretq_s8_s32(b);
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vmmlaq_s32(sum, x, y);
#elif defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, x, y);
#else
  return vpadalq_s16(sum, vmlal_high_s8(vmull_s8(vget_low_s8(x), vget_low_s8(y)), x, y));
#endif
}
#endif

}  // namespace
}  // namespace runnel::simd
