// Softmax, block by block.
#pragma once
#include "simd/float/exp.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// max(start, x[0], ..., x[n - 1])
inline float max_of(const float* x, size_t n, float start) noexcept {
  F32 max(start);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) max = xsimd::max(max, load(x + i));
  if (i < n) max = xsimd::max(max, load_n(x + i, n - i, start));
  return reduce_max(max);
}

// x = exp(x - max); returns the sum.
inline float exp_and_sum(float* x, size_t n, float max) noexcept {
  F32 total(0.0f);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const F32 e = exp(load(x + i) - F32(max));
    store(x + i, e);
    total += e;
  }
  if (i < n) {
    const F32 e = exp(load_n(x + i, n - i, -infinity) - F32(max));
    store_n(x + i, e, n - i);
    total += e;
  }
  return sum(total);
}

float softmax_step(float* s, size_t n, float* max, float* sum) noexcept {
  const float new_max = max_of(s, n, *max);
  if (new_max == -infinity) {  // all masked, and -inf - -inf is no number
    for (size_t i = 0; i < n; ++i) s[i] = 0.0f;
    return 1.0f;
  }
  const float rescale = new_max == *max ? 1.0f : exp(F32(*max - new_max)).get(0);
  *sum = *sum * rescale + exp_and_sum(s, n, new_max);
  *max = new_max;
  return rescale;
}

}  // namespace
}  // namespace runnel::simd
