// A block of a vector as int16 (simd/int8/matvec_q8_0.h): weights are widened to it, and products add up in
// int32.
#pragma once
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

class InputsOfI16 {
 public:
  void put(size_t j, I32 x) noexcept { narrow_to_i16(numbers_ + j, x); }

#if defined(__AVX512BW__) || defined(__aarch64__)
  template <size_t n, class Take>
  void multiply(const quant::BlockQ8_0* const (&blocks)[n], Take take) const noexcept {
    RUNNEL_UNROLL
    for (size_t r = 0; r < n; ++r) take(r, dot(blocks[r]->qs));
  }
#endif
  const std::int16_t* numbers() const noexcept { return numbers_; }  // 32, by 64 bytes

 private:
#if defined(__AVX512BW__)
  I32 dot(const std::int8_t* w) const noexcept {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    return _mm512_madd_epi16(_mm512_cvtepi8_epi16(bytes), _mm512_load_si512(numbers_));
  }
#elif defined(__aarch64__)
  I32 dot(const std::int8_t* w) const noexcept {
    int32x4_t even = vdupq_n_s32(0);  // two sums, each of which waits for itself
    int32x4_t odd = even;
    RUNNEL_UNROLL
    for (size_t j = 0; j < quant::BlockQ8_0::size; j += 8) {
      const int16x8_t wide = vmovl_s8(vld1_s8(w + j));
      const int16x8_t x = vld1q_s16(numbers_ + j);
      even = vmlal_s16(even, vget_low_s16(wide), vget_low_s16(x));
      odd = vmlal_high_s16(odd, wide, x);
    }
    return vaddq_s32(even, odd);
  }
#endif
  alignas(64) std::int16_t numbers_[quant::BlockQ8_0::size];
};

}  // namespace
}  // namespace runnel::simd
