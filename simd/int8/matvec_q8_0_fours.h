// Q8_0 rows times one vector, four rows to a vector of sums: the products of a block with each row, eight
// sums of int32, are added up to two, and those of four rows are made floats and multiplied by scales at
// once. Less to do for each block than with a vector for each row, so that more of it is done while the
// weights come from memory: for processors whose vectors are of 256 bits, or whose longer ones take twice as
// long (tests/bench/experiments.md). The same bits with AVX2 and AVX-512.
#pragma once
#include "simd/int8/inputs_of_i16.h"
#include "simd/int8/matvec_q8_0.h"

namespace runnel::simd {
namespace {

using FourBlocks = const quant::BlockQ8_0* const[4];

// Twice the scales of four blocks.
inline __m256 scales_of(FourBlocks& four) noexcept {
  std::uint64_t scales = 0;
  for (size_t r = 4; r-- > 0;) scales = scales << 16 | four[r]->d;
  return _mm256_cvtph_ps(_mm_set1_epi64x(static_cast<long long>(scales)));
}

// The sums of a, b, c and d in this order, each in two parts: one in every 128 bits.
inline __m256i sum4_lanes(__m256i a, __m256i b, __m256i c, __m256i d) noexcept {
  const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

// The sum of the products of a block, still spread over eight numbers.
inline __m256i dot_of(const InputsOfI16& x, const quant::BlockQ8_0& block) noexcept {
  const auto numbers = [&](size_t begin) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(x.numbers() + begin));
  };
  const auto weights = [&](size_t begin) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block.qs + begin)));
  };
  const __m256i low = _mm256_madd_epi16(weights(0), numbers(0));
#if defined(__AVX512VNNI__)
  return _mm256_dpwssd_epi32(low, weights(16), numbers(16));
#else
  return _mm256_add_epi32(low, _mm256_madd_epi16(weights(16), numbers(16)));
#endif
}

inline __m256i dots_of(const InputsOfI16& x, FourBlocks& four) noexcept {
  return sum4_lanes(dot_of(x, *four[0]), dot_of(x, *four[1]), dot_of(x, *four[2]), dot_of(x, *four[3]));
}

// As dot_rows_i16(). A single row is multiplied four times.
template <size_t n_rows, size_t ahead, size_t ahead_l2>
inline void dot_fours(float* y, size_t apart, const quant::BlockQ8_0* w, size_t row_blocks,
                      const InputsQ8_0<InputsOfI16>& x, bool add) noexcept {
  constexpr size_t n_fours = (n_rows + 3) / 4;
  __m256 sums[n_fours][2] = {};
  const auto add_products = [&](const auto& blocks, size_t b, size_t parity) {
    const __m256 scale = _mm256_set1_ps(x.scales[b]);
    RUNNEL_UNROLL
    for (size_t f = 0; f < n_fours; ++f) {
      const auto block = [&](size_t r) { return blocks[std::min(4 * f + r, n_rows - 1)]; };
      FourBlocks four = {block(0), block(1), block(2), block(3)};
      const __m256 dots = _mm256_cvtepi32_ps(dots_of(x.blocks[b], four));
      sums[f][parity] = _mm256_fmadd_ps(dots, _mm256_mul_ps(scales_of(four), scale), sums[f][parity]);
    }
  };
  for_each_block<n_rows, ahead, ahead_l2>(w, apart, row_blocks, x.n_blocks, add_products);
  for (size_t f = 0; f < n_fours; ++f) {
    const __m256 both = _mm256_add_ps(sums[f][0], sums[f][1]);
    float part[4];
    _mm_storeu_ps(part, _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1)));
    for (size_t r = 4 * f; r < std::min(4 * f + 4, n_rows); ++r) {
      y[r * apart] = add ? y[r * apart] + part[r % 4] : part[r % 4];
    }
  }
}

template <size_t at_once, size_t ahead, size_t ahead_l2>
inline void multiply_fours(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t row_blocks,
                           const float* x) noexcept {
  multiply_by_parts<InputsOfI16, at_once, ahead>(
      y, w, n_rows, row_blocks, x,
      [=](auto n, float* sums, size_t apart, const quant::BlockQ8_0* rows, const auto& part, bool add) {
        dot_fours<n, ahead, ahead_l2>(sums, apart, rows, row_blocks, part, add);
      });
}

// How far ahead: tests/bench/experiments.md (Zen 4).
inline void matvec_q8_0_fours(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols,
                              const float* x) noexcept {
  const size_t row_blocks = n_cols / quant::BlockQ8_0::size;
  if (is_wide(row_blocks * sizeof(InputsOfI16), row_blocks * sizeof *w))
    return multiply_fours<wide_rows, 256, wide_ahead_l2>(y, w, n_rows, row_blocks, x);
  multiply_fours<matvec_rows, 512, 0>(y, w, n_rows, row_blocks, x);
}

}  // namespace
}  // namespace runnel::simd
