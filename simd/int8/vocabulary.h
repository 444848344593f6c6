// What the int8 kernels need beside the float vocabulary: vectors of int32, and three passes over a block of
// 32 activations. All of it differs by instruction set.
//
//   I32                        `lanes` int32
//   load_i32, to_float
//   to_nearest(x)              integers, ties to even
//   narrow_to_bytes(p, v)      the lowest byte of each int32, `lanes` of them
//   narrow_to_i16(p, v)        the lower half of each, which is all of it
//   sum, max                   over all lanes
//   load_words(p, q)           eight words of 32 bits from p and eight from q on, or as many from p as
//                              there is room for; what is in them is no matter
//   store_words
//   byte_of(v, k)              byte k of each int32, sign extended; byte 0 is the lowest
//   max_magnitude_bits(x)      the largest of the bits of |x[i]|, as integers: NaN > infinity > all others
//   above(x, limit)            bit i: |x[i]| > limit
//   round_block(codes, x, f, flip)
//                              codes[i] = x[i] * f to the nearest integer, ties to even, with the bits of
//                              flip inverted; returns the integers' sum
//   count_up_to(m, n, limit)   how many of n are <= limit
#pragma once
#include "quant/activations.h"
#include "quant/i8.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

using I32 = xsimd::batch<std::int32_t>;
static_assert(I32::size == lanes);
static_assert(panel_rows == quant::i8_panel_rows);

#if defined(__AVX512F__)

inline I32 load_i32(const void* p) noexcept { return _mm512_loadu_si512(p); }
inline F32 to_float(I32 v) noexcept { return _mm512_cvtepi32_ps(v); }
inline I32 to_nearest(F32 x) noexcept { return _mm512_cvtps_epi32(x); }
inline void narrow_to_bytes(std::int8_t* p, I32 v) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
inline void narrow_to_i16(std::int16_t* p, I32 v) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
}
inline std::int32_t sum(I32 v) noexcept { return _mm512_reduce_add_epi32(v); }
inline std::int32_t max(I32 v) noexcept { return _mm512_reduce_max_epi32(v); }
inline F32 load_words(const std::int8_t* p, const std::int8_t* q) noexcept {
  const auto eight = [](const std::int8_t* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  };
  return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(eight(p)), eight(q), 1));
}
inline void store_words(std::int8_t* p, F32 v) noexcept { _mm512_storeu_si512(p, _mm512_castps_si512(v)); }
inline I32 byte_of(I32 v, unsigned k) noexcept {
#if defined(__AVX512VNNI__)
  alignas(16) static constexpr std::int32_t only[] = {1, 1 << 8, 1 << 16, 1 << 24};
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi32(only[k]), v);
#else
  return _mm512_srai_epi32(_mm512_sllv_epi32(v, _mm512_set1_epi32(static_cast<int>(24 - 8 * k))), 24);
#endif
}

inline __m512i magnitude_bits(const float* x) noexcept {
  return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}
inline std::uint32_t max_magnitude_bits(const float* x) noexcept {
  return static_cast<std::uint32_t>(max(I32(_mm512_max_epi32(magnitude_bits(x), magnitude_bits(x + 16)))));
}
inline std::uint32_t above(const float* x, float limit) noexcept {
  const auto half = [&](const float* p) {
    const __m512 magnitude = _mm512_castsi512_ps(magnitude_bits(p));
    return static_cast<std::uint32_t>(_mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(limit), _CMP_GT_OQ));
  };
  return half(x) | half(x + 16) << 16;
}
inline std::int32_t round_block(std::int8_t* codes, const float* x, float factor, std::int8_t flip) noexcept {
  const I32 low = to_nearest(load(x) * F32(factor)), high = to_nearest(load(x + lanes) * F32(factor));
  narrow_to_bytes(codes, low ^ I32(flip));
  narrow_to_bytes(codes + lanes, high ^ I32(flip));
  return sum(low + high);
}
inline size_t count_up_to(const float* m, size_t n, float limit) noexcept {
  size_t count = 0;
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 some = first(n - i < 16 ? n - i : 16);
    const __m512 v = _mm512_maskz_loadu_ps(some, m + i);
    count += static_cast<size_t>(
        __builtin_popcount(_mm512_mask_cmp_ps_mask(some, v, _mm512_set1_ps(limit), _CMP_LE_OQ)));
  }
  return count;
}

#elif defined(__AVX2__)

inline I32 load_i32(const void* p) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline F32 to_float(I32 v) noexcept { return _mm256_cvtepi32_ps(v); }
inline I32 to_nearest(F32 x) noexcept { return _mm256_cvtps_epi32(x); }
inline void narrow_to_bytes(std::int8_t* p, I32 v) noexcept {
  const __m256i lowest = _mm256_set1_epi32(0x0c080400);  // of four lanes, four times
  const __m256i fours = _mm256_shuffle_epi8(v, lowest);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p),
                   _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1)));
}
inline void narrow_to_i16(std::int16_t* p, I32 v) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
inline std::int32_t sum(I32 v) noexcept {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}
inline std::int32_t max(I32 v) noexcept {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}
inline F32 load_words(const std::int8_t* p, const std::int8_t*) noexcept {
  return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_words(std::int8_t* p, F32 v) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_castps_si256(v));
}
inline I32 byte_of(I32 v, unsigned k) noexcept {
  return _mm256_srai_epi32(_mm256_sllv_epi32(v, _mm256_set1_epi32(static_cast<int>(24 - 8 * k))), 24);
}

inline __m256i magnitude_bits(const float* x) noexcept {
  return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)),
                          _mm256_set1_epi32(0x7fffffff));
}
inline std::uint32_t max_magnitude_bits(const float* x) noexcept {
  const __m256i max8 = _mm256_max_epi32(_mm256_max_epi32(magnitude_bits(x), magnitude_bits(x + 8)),
                                        _mm256_max_epi32(magnitude_bits(x + 16), magnitude_bits(x + 24)));
  return static_cast<std::uint32_t>(max(I32(max8)));
}
inline std::uint32_t above(const float* x, float limit) noexcept {
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < 32; i += 8) {
    const __m256 magnitude = _mm256_castsi256_ps(magnitude_bits(x + i));
    const int some = _mm256_movemask_ps(_mm256_cmp_ps(magnitude, _mm256_set1_ps(limit), _CMP_GT_OQ));
    mask |= static_cast<std::uint32_t>(some) << i;
  }
  return mask;
}
inline std::int32_t round_block(std::int8_t* codes, const float* x, float factor, std::int8_t flip) noexcept {
  const auto rounded = [&](const float* p) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(p), _mm256_set1_ps(factor)));
  };
  const __m256i a = rounded(x), b = rounded(x + 8), c = rounded(x + 16), d = rounded(x + 24);
  // The halves of a, b, c and d alternate in the packed bytes.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes),
                      _mm256_xor_si256(_mm256_permutevar8x32_epi32(bytes, order), _mm256_set1_epi8(flip)));
  return sum(I32(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d))));
}
inline size_t count_up_to(const float* m, size_t n, float limit) noexcept {
  size_t count = 0;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 some = _mm256_cmp_ps(_mm256_loadu_ps(m + i), _mm256_set1_ps(limit), _CMP_LE_OQ);
    count += static_cast<size_t>(__builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(some))));
  }
  for (; i < n; ++i) count += m[i] <= limit ? 1 : 0;
  return count;
}

#elif defined(__aarch64__)

inline I32 load_i32(const void* p) noexcept {
  return vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)));
}
inline F32 to_float(I32 v) noexcept { return vcvtq_f32_s32(v); }
inline I32 to_nearest(F32 x) noexcept { return vcvtnq_s32_f32(x); }
inline void narrow_to_bytes(std::int8_t* p, I32 v) noexcept {
  const int16x4_t words = vmovn_s32(v);
  const int32x2_t bytes = vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words)));
  const std::int32_t four = vget_lane_s32(bytes, 0);
  __builtin_memcpy(p, &four, sizeof four);
}
inline void narrow_to_i16(std::int16_t* p, I32 v) noexcept { vst1_s16(p, vmovn_s32(v)); }
inline std::int32_t sum(I32 v) noexcept { return vaddvq_s32(v); }
inline std::int32_t max(I32 v) noexcept { return vmaxvq_s32(v); }
inline F32 load_words(const std::int8_t* p, const std::int8_t*) noexcept {
  return vreinterpretq_f32_s8(vld1q_s8(p));
}
inline void store_words(std::int8_t* p, F32 v) noexcept { vst1q_s8(p, vreinterpretq_s8_f32(v)); }
inline I32 byte_of(I32 v, unsigned k) noexcept {
  return vshrq_n_s32(vshlq_s32(v, vdupq_n_s32(static_cast<int>(24 - 8 * k))), 24);
}

inline uint32x4_t magnitude_bits(const float* x) noexcept {
  return vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x)));
}
inline std::uint32_t max_magnitude_bits(const float* x) noexcept {
  uint32x4_t max = magnitude_bits(x);
  for (size_t i = 4; i < quant::i8_block; i += 4) max = vmaxq_u32(max, magnitude_bits(x + i));
  return vmaxvq_u32(max);
}
inline std::uint32_t above(const float* x, float limit) noexcept {
  const uint32x4_t bits = {1, 2, 4, 8};
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < quant::i8_block; i += 4) {
    const uint32x4_t some = vcgtq_f32(vabsq_f32(vld1q_f32(x + i)), vdupq_n_f32(limit));
    mask |= vaddvq_u32(vandq_u32(some, bits)) << i;
  }
  return mask;
}
inline std::int32_t round_block(std::int8_t* codes, const float* x, float factor, std::int8_t flip) noexcept {
  int32x4_t sum = vdupq_n_s32(0);
  for (size_t i = 0; i < quant::i8_block; i += 8) {
    const int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), factor));
    const int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), factor));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)));
    vst1_s8(codes + i, veor_s8(bytes, vdup_n_s8(flip)));
    sum = vaddq_s32(sum, vaddq_s32(low, high));
  }
  return vaddvq_s32(sum);
}
inline size_t count_up_to(const float* m, size_t n, float limit) noexcept {
  uint32x4_t counts = vdupq_n_u32(0);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) counts = vsubq_u32(counts, vcleq_f32(vld1q_f32(m + i), vdupq_n_f32(limit)));
  size_t count = vaddvq_u32(counts);
  for (; i < n; ++i) count += m[i] <= limit ? 1 : 0;
  return count;
}

#endif

// Sums of a block's products that began at quant::i8_base_bits, or an offset from it: i8_base + sum.
inline F32 on_base(I32 sums) noexcept { return bits_as<float>(sums); }

// The sums times their scale; base: -i8_base * scale. Both ways are exact but for one rounding, and give the
// same bits. ARM has fused additions only to what is in their own register: to copy it there takes as long as
// to subtract, in more registers.
#if defined(__aarch64__)
inline F32 scaled(F32 on_base, F32 scale, F32 /*base*/) noexcept {
  return (on_base - F32(quant::i8_base)) * scale;
}
#else
inline F32 scaled(F32 on_base, F32 scale, F32 base) noexcept { return fmadd(on_base, scale, base); }
#endif

// Four bytes as one number.
inline std::int32_t four_at(const std::int8_t* p) noexcept {
  std::int32_t four = 0;
  __builtin_memcpy(&four, p, sizeof four);
  return four;
}
// In every lane.
inline I32 four_of(const std::int8_t* p) noexcept { return I32(four_at(p)); }

}  // namespace
}  // namespace runnel::simd
