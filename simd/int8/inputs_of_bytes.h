// A block of a vector as two bytes of each number, 256 high + low (simd/int8/matvec_q8_0.h), for ARM's dot
// products of bytes.
#pragma once
#include "simd/int8/bytes.h"
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

class InputsOfBytes {
 public:
  void put(size_t j, std::int32_t x) noexcept {
    high_[j] = high_byte(x);
    low_[j] = low_byte(x);
  }
  I32 dots(const std::int8_t* w) const noexcept {
    I32 high(0);
    I32 low(0);
    RUNNEL_UNROLL
    for (size_t j = 0; j < quant::BlockQ8_0::size; j += sizeof(Bytes)) {
      high = add_dots(high, load_i32(w + j), load_i32(high_ + j));
      low = add_dots(low, load_i32(w + j), load_i32(low_ + j));
    }
    return vmlaq_n_s32(low, high, 256);
  }

 private:
  std::int8_t high_[quant::BlockQ8_0::size];
  std::int8_t low_[quant::BlockQ8_0::size];
};

}  // namespace
}  // namespace runnel::simd
