// Codes of activations as an instruction set reads them that multiplies magnitudes (`split` in
// quant/activations.h).
#pragma once
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// split: [2][32], magnitudes and signs of codes[32]. Returns the sum of the magnitudes of negative codes.
inline std::int32_t split_block(std::int8_t* split, const std::int8_t* codes) noexcept {
#if defined(__AVX2__)
  const auto store = [](std::int8_t* to, __m256i v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  };
  const __m256i zeros = _mm256_setzero_si256();
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i opposite = _mm256_sub_epi8(zeros, x);
  store(split, _mm256_min_epu8(x, opposite));
  store(split + quant::i8_block, _mm256_cmpgt_epi8(zeros, x));
  const __m256i four = _mm256_sad_epu8(_mm256_max_epi8(opposite, zeros), zeros);  // sums of eight bytes each
  const __m128i two = _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_unpackhi_epi64(two, two)));
#else
  std::int32_t sum = 0;
  for (size_t i = 0; i < quant::i8_block; ++i) {
    const int code = codes[i], sign = code < 0 ? -1 : 0;
    split[i] = static_cast<std::int8_t>((code ^ sign) - sign);
    split[quant::i8_block + i] = static_cast<std::int8_t>(sign);
    sum += split[i] & sign;
  }
  return sum;
#endif
}

}  // namespace
}  // namespace runnel::simd
