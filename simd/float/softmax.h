// Softmax, block by block.
#pragma once
#include "simd/float/abreast.h"
#include "simd/float/exp.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// max(start, x[0], ..., x[n - 1])
inline float max_of(const float* x, size_t n, float start) noexcept {
  F32 max[vectors_abreast];
  for_each_vector<vectors_abreast>([&](size_t v) { max[v] = F32(start); });
  const size_t rest = by_vectors(n, [&](size_t i, auto n_vecs) {
    for_each_vector<n_vecs>([&](size_t v) { max[v] = xsimd::max(max[v], load(x + i + v * lanes)); });
  });
  if (rest < n) max[0] = xsimd::max(max[0], load_n(x + rest, n - rest, start));
  for_each_vector<vectors_abreast>([&](size_t v) { max[0] = xsimd::max(max[0], max[v]); });
  return reduce_max(max[0]);
}

// x = exp(x - max); returns the sum.
inline float exp_and_sum(float* x, size_t n, float max) noexcept {
  F32 total(0.0f);
  const size_t rest = by_vectors(n, [&](size_t i, auto n_vecs) {
    F32 e[n_vecs];
    for_each_vector<n_vecs>([&](size_t v) { e[v] = load(x + i + v * lanes) - F32(max); });
    exp(e);
    for_each_vector<n_vecs>([&](size_t v) {
      store(x + i + v * lanes, e[v]);
      total += e[v];
    });
  });
  if (rest < n) {
    F32 e[] = {load_n(x + rest, n - rest, -infinity) - F32(max)};
    exp(e);
    store_n(x + rest, e[0], n - rest);
    total += e[0];
  }
  return sum(total);
}

inline float exp_of(float x) noexcept {
  F32 e[] = {F32(x)};
  exp(e);
  return e[0].get(0);
}

float softmax_step(float* s, size_t n, float* max, float* sum) noexcept {
  const float new_max = max_of(s, n, *max);
  if (new_max == -infinity) {  // all masked, and -inf - -inf is no number
    for (size_t i = 0; i < n; ++i) s[i] = 0.0f;
    return 1.0f;
  }
  const float rescale = new_max == *max ? 1.0f : exp_of(*max - new_max);
  *sum = *sum * rescale + exp_and_sum(s, n, new_max);
  *max = new_max;
  return rescale;
}

}  // namespace
}  // namespace runnel::simd
