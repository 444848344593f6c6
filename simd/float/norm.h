// Normalisation of one vector, in f32 throughout: squares of entries up to 1e18 are finite.
#pragma once
#include "simd/float/elementwise.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// sum_i f(x[i]) over n numbers; f takes and gives a vector, and f(fill) = 0.
template <class F>
inline float sum_of(const float* x, size_t n, float fill, F f) noexcept {
  F32 sums[2] = {F32(0.0f), F32(0.0f)};
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sums[0] += f(load(x + i));
    sums[1] += f(load(x + i + lanes));
  }
  if (i + lanes <= n) {
    sums[0] += f(load(x + i));
    i += lanes;
  }
  if (i < n) sums[1] += f(load_n(x + i, n - i, fill));
  return sum(sums[0] + sums[1]);
}

inline float inverse_root(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }

void rms_norm(float* y, const float* x, const float* gain, size_t n, float eps) noexcept {
  const float squares = sum_of(x, n, 0.0f, [](F32 v) { return v * v; });
  const F32 inverse(inverse_root(squares / static_cast<float>(n) + eps));
  map(y, x, gain, n, [&](F32 v, F32 g) { return v * inverse * g; });
}

void layer_norm(float* y, const float* x, const float* gain, const float* bias, size_t n,
                float eps) noexcept {
  const float mean = sum_of(x, n, 0.0f, [](F32 v) { return v; }) / static_cast<float>(n);
  const float squares = sum_of(x, n, mean, [&](F32 v) { return (v - F32(mean)) * (v - F32(mean)); });
  const F32 inverse(inverse_root(squares / static_cast<float>(n) + eps));
  map(y, x, gain, n, [&](F32 v, F32 g) { return (v - F32(mean)) * inverse * g; });
  if (bias != nullptr) add(y, bias, n);
}

}  // namespace
}  // namespace runnel::simd
