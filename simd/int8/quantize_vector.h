// One vector into int8 with one scale: a cached key or value. Plain loops, which compilers turn into vectors
// of the instruction set at hand; the scalar row uses the same.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "simd/int8/scaling.h"

namespace runnel::simd {
namespace {

float quantize_vector(std::int8_t* y, std::size_t side, std::size_t y_stride, const float* x,
                      std::size_t n) noexcept {
  const auto to = [=](std::size_t i) -> std::int8_t& { return y[i / side * y_stride + i % side]; };
  const Scaling scaling = scaling_of(x, n, 127.0f);
  if (scaling.is_empty()) {
    for (std::size_t i = 0; i < n; ++i) to(i) = 0;
    return scaling.scale;
  }
  constexpr std::size_t part = 64;
  for (std::size_t begin = 0; begin < n; begin += part) {
    const std::size_t size = std::min(part, n - begin);
    std::int8_t codes[part];
    for (std::size_t i = 0; i < size; ++i)
      codes[i] = static_cast<std::int8_t>(round_to_even(x[begin + i] * scaling.inverse));
    for (std::size_t i = 0; i < size; ++i) to(begin + i) = codes[i];
  }
  return scaling.scale;
}

}  // namespace
}  // namespace runnel::simd
