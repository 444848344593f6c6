// One vector into int8 with one scale: a cached key or value. Plain loops, which compilers turn into vectors
// of the instruction set at hand; the scalar row uses the same.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "quant/q8_0.h"
#include "simd/int8/scaling.h"

namespace runnel::simd {
namespace {

// Where the numbers of a vector go, one after the other: `side` of them side by side, then y_stride on.
class SpreadCodes {
 public:
  SpreadCodes(std::int8_t* y, std::size_t side, std::size_t y_stride) noexcept
      : at_(y), side_(side), y_stride_(y_stride) {}
  void put(std::int8_t code) noexcept {
    at_[n_] = code;
    if (++n_ < side_) return;
    n_ = 0;
    at_ += y_stride_;
  }

 private:
  std::int8_t* at_;
  std::size_t side_, y_stride_, n_ = 0;
};

float quantize_vector(std::int8_t* y, std::size_t side, std::size_t y_stride, const float* x,
                      std::size_t n) noexcept {
  SpreadCodes out(y, side, y_stride);
  const Scaling scaling = scaling_of(x, n, quant::int8_most);
  if (scaling.is_empty()) {
    for (std::size_t i = 0; i < n; ++i) out.put(0);
    return scaling.scale;
  }
  constexpr std::size_t part = 64;
  for (std::size_t begin = 0; begin < n; begin += part) {
    const std::size_t size = std::min(part, n - begin);
    std::int8_t codes[part];
    for (std::size_t i = 0; i < size; ++i)
      codes[i] = static_cast<std::int8_t>(round_to_even(x[begin + i] * scaling.inverse));
    for (std::size_t i = 0; i < size; ++i) out.put(codes[i]);
  }
  return scaling.scale;
}

}  // namespace
}  // namespace runnel::simd
