// A block of a vector as two bytes of each number, 256 high + low (simd/int8/matvec_q8_0.h), for ARM's dot
// products of bytes.
#pragma once
#include "simd/int8/bytes.h"
#include "simd/int8/make_factors.h"

namespace runnel::simd {
namespace {

class InputsOfBytes {
 public:
  void put(size_t j, I32 x) noexcept {
    narrow_to_bytes(high_ + j, high_bytes(x));
    narrow_to_bytes(low_ + j, x);
  }
  // Products with the low bytes are added to 256 times those with the high bytes. All rows step by step, for
  // processors that wait for each sum before they go on.
  template <size_t n, class Take>
  void multiply(const quant::BlockQ8_0* const (&blocks)[n], Take take) const noexcept {
    I32 dots[n];
    RUNNEL_UNROLL
    for (size_t r = 0; r < n; ++r) dots[r] = I32(0);
    add(dots, blocks, high_);
    RUNNEL_UNROLL
    for (size_t r = 0; r < n; ++r) dots[r] = vshlq_n_s32(dots[r], 8);
    add(dots, blocks, low_);
    RUNNEL_UNROLL
    for (size_t r = 0; r < n; ++r) take(r, dots[r]);
  }

 private:
  template <size_t n>
  static void add(I32 (&dots)[n], const quant::BlockQ8_0* const (&blocks)[n], const std::int8_t* x) noexcept {
    RUNNEL_UNROLL
    for (size_t j = 0; j < quant::BlockQ8_0::size; j += sizeof(Bytes)) {
      RUNNEL_UNROLL
      for (size_t r = 0; r < n; ++r)
        dots[r] = add_dots(dots[r], load_i32(blocks[r]->qs + j), load_i32(x + j));
    }
  }

  std::int8_t high_[quant::BlockQ8_0::size];
  std::int8_t low_[quant::BlockQ8_0::size];
};

}  // namespace
}  // namespace runnel::simd
