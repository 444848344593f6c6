// e to the power of x.
#pragma once
#include "simd/float/abreast.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// x[v] = exp(x[v]), within 0.9 units in the last place; 0 below -86.98 (whatever is or is nearly subnormal,
// on which processors spend 100 cycles and more), infinite above 88.72.
//
// x = n ln 2 + r, |r| <= ln 2 / 2: exp(x) = 2^(n - 1) 2 exp(r), exp(r) by its minimax polynomial 1 + r + ...
// of degree 6 (relative error 3e-9).
template <size_t n_vecs>
inline void exp(F32 (&x)[n_vecs]) noexcept {
  constexpr float log2_e = 1.442695041f;
  constexpr float ln_2 = 0.693147182464599609f, ln_2_rest = -1.904654323148236e-9f;
  // 1.5 2^23, added to a number, leaves no bits behind the point and the whole number in the lowest bits; 126
  // is 2^(n - 1)'s biased exponent less n. It is 0 for the least n, and makes that power 0.
  constexpr float round = 12582912.0f + 126.0f;
  constexpr float factors_of_twice[] = {2 * 0.008368716575205326f,
                                        2 * 0.04166838899254799f,
                                        2 * 0.1666652113199234f,
                                        2 * 0.4999999403953552f,
                                        2.0f,
                                        2.0f};  // of r^5, r^4, ..., 1
  F32 rounded[n_vecs], r[n_vecs], twice[n_vecs];
  for_each_vector<n_vecs>([&](size_t v) {
    x[v] = xsimd::min(F32(89.0f), xsimd::max(F32(-87.5f), x[v]));  // this order keeps NaN
    rounded[v] = fmadd(x[v], F32(log2_e), F32(round));
  });
  for_each_vector<n_vecs>([&](size_t v) {
    const F32 n = rounded[v] - F32(round);
    r[v] = fmadd(n, F32(-ln_2_rest), fmadd(n, F32(-ln_2), x[v]));
  });
  for_each_vector<n_vecs>([&](size_t v) { twice[v] = F32(2 * 0.001381459878757596f); });
  for (const float factor : factors_of_twice) {
    for_each_vector<n_vecs>([&](size_t v) { twice[v] = fmadd(twice[v], r[v], F32(factor)); });
  }
  for_each_vector<n_vecs>(
      [&](size_t v) { x[v] = twice[v] * bits_as<float>(bits_as<std::int32_t>(rounded[v]) << 23); });
}

}  // namespace
}  // namespace runnel::simd
