// The float vocabulary of the kernels: xsimd::batch<float> for the instruction set this file is compiled for,
// and what xsimd 8.1 lacks.
//
// Everything lives in an unnamed namespace, and xsimd itself is renamed for each instruction set
// (-Dxsimd=...): no two kernel files may share a function, as the linker would keep just one of them
// (tests/kernels/odr.sh).
#pragma once
#include <cstddef>
#include <limits>
#include <utility>
#include <xsimd/xsimd.hpp>

#include "simd/kernels.h"

namespace runnel::simd {
namespace {

// Before a loop over an array of vectors: without being unrolled in full they could not be registers.
#if defined(__clang__)
#define RUNNEL_UNROLL _Pragma("unroll")
#else
#define RUNNEL_UNROLL _Pragma("GCC unroll 64")
#endif

using F32 = xsimd::batch<float>;
constexpr size_t lanes = F32::size;
constexpr size_t panel_vecs = panel_rows / lanes;
constexpr float infinity = std::numeric_limits<float>::infinity();

inline F32 load(const float* p) noexcept { return F32::load_unaligned(p); }
inline void store(float* p, F32 v) noexcept { v.store_unaligned(p); }

constexpr size_t line_bytes = 64;  // of a cache

// Brings the cache line of p[n] near; nothing needs to be there.
template <class T>
inline void prefetch(const T* p, size_t n) noexcept {
  __builtin_prefetch(p + n);
}
inline void prefetch_to_write(const void* p) noexcept { __builtin_prefetch(p, 1); }
inline void prefetch_l2(const void* p) noexcept { __builtin_prefetch(p, 0, 2); }
// The lines of n elements from p on.
template <class T>
inline void prefetch_lines(const T* p, size_t n) noexcept {
  for (size_t i = 0; i < n; i += line_bytes / sizeof *p) prefetch_l2(p + i);
}

// ---- Different on each instruction set:
//   fmadd(a, b, c)          a * b + c, rounded once
//   load_f16, _bf16         `lanes` numbers, widened
//   store_f16               rounded to nearest even
//   load_n, store_n         the first n <= lanes numbers; a load fills up with `fill`
//   load_f16_n, load_bf16_n, store_f16_n
//   rotate_pairs            one vector of adjacent pairs: (a, b) -> (a cos - b sin, b cos + a sin)
//   F32x4, sum4, store4     four sums over all lanes at once
//   reduce_max              over all lanes

// A part of a vector goes through memory where the instruction set cannot mask.
template <class T>
struct Part {
  T data[lanes];
  Part() noexcept = default;
  Part(const T* p, size_t n, T fill) noexcept {
    for (size_t i = 0; i < lanes; ++i) data[i] = i < n ? p[i] : fill;
  }
  void copy_to(T* p, size_t n) const noexcept {
    for (size_t i = 0; i < n; ++i) p[i] = data[i];
  }
};

#if defined(__AVX512F__)

inline F32 fmadd(F32 a, F32 b, F32 c) noexcept { return _mm512_fmadd_ps(a, b, c); }

inline __mmask16 first(size_t n) noexcept { return static_cast<__mmask16>((1u << n) - 1u); }
inline F32 load_n(const float* p, size_t n, float fill = 0.0f) noexcept {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(n), p);
}
inline void store_n(float* p, F32 v, size_t n) noexcept { _mm512_mask_storeu_ps(p, first(n), v); }

inline F32 widen_bf16(__m256i v) noexcept {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
inline F32 load_f16(const F16* p) noexcept {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F32 load_f16_n(const F16* p, size_t n) noexcept {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}
inline F32 load_bf16(const BF16* p) noexcept {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F32 load_bf16_n(const BF16* p, size_t n) noexcept {
  return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
}
inline __m256i narrow_f16(F32 v) noexcept {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline void store_f16(F16* p, F32 v) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(v));
}
inline void store_f16_n(F16* p, F32 v, size_t n) noexcept {
  _mm256_mask_storeu_epi16(p, first(n), narrow_f16(v));
}

inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) noexcept {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512 c = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(cos)));
  const __m512 s = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(sin)));
  const __m512 swapped = _mm512_permute_ps(x, 0xb1);
  return _mm512_fmaddsub_ps(x, c, _mm512_mul_ps(swapped, s));
}

// a, b, c, d: their four sums, each still spread over one number of every 128 bits.
inline __m512 sum4_lanes(F32 a, F32 b, F32 c, F32 d) noexcept {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}
inline __m128 sum4(F32 a, F32 b, F32 c, F32 d) noexcept {
  const __m512 sums = sum4_lanes(a, b, c, d);
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps(sums, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
inline float reduce_max(F32 v) noexcept { return _mm512_reduce_max_ps(v); }

#elif defined(__AVX2__)

inline F32 fmadd(F32 a, F32 b, F32 c) noexcept { return _mm256_fmadd_ps(a, b, c); }

inline __m256i first(size_t n) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline F32 load_n(const float* p, size_t n, float fill = 0.0f) noexcept {
  const __m256i mask = first(n);
  return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
inline void store_n(float* p, F32 v, size_t n) noexcept { _mm256_maskstore_ps(p, first(n), v); }

inline F32 load_f16(const F16* p) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline F32 load_bf16(const BF16* p) noexcept {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline void store_f16(F16* p, F32 v) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) noexcept {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos)), twice);
  const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin)), twice);
  const __m256 swapped = _mm256_permute_ps(x, 0xb1);
  return _mm256_fmaddsub_ps(x, c, _mm256_mul_ps(swapped, s));
}

inline __m128 sum4(F32 a, F32 b, F32 c, F32 d) noexcept {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}
inline float reduce_max(F32 v) noexcept {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#elif defined(__aarch64__)

inline F32 fmadd(F32 a, F32 b, F32 c) noexcept { return vfmaq_f32(c, a, b); }

inline F32 load_n(const float* p, size_t n, float fill = 0.0f) noexcept {
  return load(Part<float>(p, n, fill).data);
}
inline void store_n(float* p, F32 v, size_t n) noexcept {
  Part<float> part;
  store(part.data, v);
  part.copy_to(p, n);
}

inline F32 load_f16(const F16* p) noexcept { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline F32 load_bf16(const BF16* p) noexcept { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
inline void store_f16(F16* p, F32 v) noexcept { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) noexcept {
  const float32x2_t c = vld1_f32(cos);
  const float32x2_t s = vld1_f32(sin);
  const float32x2_t minus_s = vneg_f32(s);
  const float32x4_t cc = vcombine_f32(vdup_lane_f32(c, 0), vdup_lane_f32(c, 1));
  const float32x4_t ss = vcombine_f32(vzip1_f32(minus_s, s), vzip2_f32(minus_s, s));
  return vfmaq_f32(vmulq_f32(vrev64q_f32(x), ss), x, cc);
}

inline float32x4_t sum4(F32 a, F32 b, F32 c, F32 d) noexcept {
  return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}
inline float reduce_max(F32 v) noexcept { return vmaxvq_f32(v); }

#endif

#if defined(__x86_64__)

using F32x4 = __m128;
inline void store4(float* p, F32x4 v) noexcept { _mm_storeu_ps(p, v); }

#elif defined(__aarch64__)

using F32x4 = float32x4_t;
inline void store4(float* p, F32x4 v) noexcept { vst1q_f32(p, v); }

#endif

#if !defined(__AVX512F__)
inline F32 load_f16_n(const F16* p, size_t n) noexcept { return load_f16(Part<F16>(p, n, F16{0}).data); }
inline F32 load_bf16_n(const BF16* p, size_t n) noexcept { return load_bf16(Part<BF16>(p, n, BF16{0}).data); }
inline void store_f16_n(F16* p, F32 v, size_t n) noexcept {
  Part<F16> part;
  store_f16(part.data, v);
  part.copy_to(p, n);
}
#endif

// ---- The same everywhere.

// The order of the additions is that of sum4, so that a row has the same bits alone and among others.
inline float sum(F32 v) noexcept {
  float four[4];
  store4(four, sum4(v, v, v, v));
  return four[0];
}

// The right upper and the left lower square of two rows of 2 x 2 squares change places.
template <size_t square, size_t... i>
inline void swap_squares(F32& upper, F32& lower, std::index_sequence<i...>) noexcept {
  const auto u = upper.data, l = lower.data;
  upper.data = __builtin_shufflevector(u, l, ((i & square) != 0 ? lanes + i - square : i)...);
  lower.data = __builtin_shufflevector(u, l, ((i & square) != 0 ? lanes + i : i + square)...);
}
// v[i][j] and v[j][i] change places; so do v[i][n + j] and v[j][n + i], where n is half as many as `lanes`.
template <size_t square = 1, size_t n>
inline void transpose(F32 (&v)[n]) noexcept {
  if constexpr (square < n) {
    RUNNEL_UNROLL for (size_t i = 0; i < n; ++i) if ((i & square) == 0)
        swap_squares<square>(v[i], v[i + square], std::make_index_sequence<lanes>());
    transpose<2 * square>(v);
  }
}

// Not xsimd's bitwise_cast, which in xsimd 8.1 is two calls of functions on ARM.
template <class To, class From>
inline xsimd::batch<To> bits_as(xsimd::batch<From> v) noexcept {
  return __builtin_bit_cast(typename xsimd::batch<To>::register_type, v.data);
}

// Loads of each format under one name, for kernels that are the same for several.
struct AsF32 {
  using Element = float;
  static F32 load(const float* p) noexcept { return simd::load(p); }
  static F32 load_n(const float* p, size_t n) noexcept { return simd::load_n(p, n); }
};
struct AsF16 {
  using Element = F16;
  static F32 load(const F16* p) noexcept { return load_f16(p); }
  static F32 load_n(const F16* p, size_t n) noexcept { return load_f16_n(p, n); }
};
struct AsBf16 {
  using Element = BF16;
  static F32 load(const BF16* p) noexcept { return load_bf16(p); }
  static F32 load_n(const BF16* p, size_t n) noexcept { return load_bf16_n(p, n); }
};

}  // namespace
}  // namespace runnel::simd
