// e to the power of x.
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// Within 0.9 units in the last place; 0 below -86.98 (whatever is or is nearly subnormal, on which processors
// spend 100 cycles and more), infinite above 88.72.
// x = n ln 2 + r, |r| <= ln 2 / 2: exp(x) = 2^(n - 1) 2 exp(r), exp(r) by its minimax polynomial 1 + r + ...
// of degree 6 (relative error 3e-9).
inline F32 exp(F32 x) noexcept {
  constexpr float log2_e = 1.442695041f;
  constexpr float ln_2 = 0.693147182464599609f, ln_2_rest = -1.904654323148236e-9f;
  // 1.5 2^23, added to a number, leaves no bits behind the point and the whole number in the lowest bits; 126
  // is 2^(n - 1)'s biased exponent less n. It is 0 for the least n, and makes that power 0.
  constexpr float round = 12582912.0f + 126.0f;
  const F32 in_range = xsimd::min(F32(89.0f), xsimd::max(F32(-87.5f), x));  // this order keeps NaN
  const F32 rounded = fmadd(in_range, F32(log2_e), F32(round));
  const F32 n = rounded - F32(round);
  const F32 r = fmadd(n, F32(-ln_2_rest), fmadd(n, F32(-ln_2), in_range));
  F32 twice(2 * 0.001381459878757596f);
  twice = fmadd(twice, r, F32(2 * 0.008368716575205326f));
  twice = fmadd(twice, r, F32(2 * 0.04166838899254799f));
  twice = fmadd(twice, r, F32(2 * 0.1666652113199234f));
  twice = fmadd(twice, r, F32(2 * 0.4999999403953552f));
  twice = fmadd(twice, r, F32(2.0f));
  twice = fmadd(twice, r, F32(2.0f));
  return twice * bits_as<float>(bits_as<std::int32_t>(rounded) << 23);
}

}  // namespace
}  // namespace runnel::simd
