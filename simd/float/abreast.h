// Vectors taken side by side. Where each operation waits for the one before it, as in an exponential, a
// processor has as many chains to work on as there are vectors abreast; one vector has the same bits alone or
// among others.
#pragma once
#include <type_traits>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

inline constexpr size_t vectors_abreast = 4;

// f(i, n_vecs) for the vectors that begin at i, as many abreast as there are, then one by one; n_vecs is an
// integral_constant. Returns where the rest begins that fills no vector.
template <class F>
inline size_t by_vectors(size_t n, F f) noexcept {
  constexpr size_t step = vectors_abreast * lanes;
  size_t i = 0;
  for (; i + step <= n; i += step) f(i, std::integral_constant<size_t, vectors_abreast>());
  for (; i + lanes <= n; i += lanes) f(i, std::integral_constant<size_t, 1>());
  return i;
}

template <size_t n_vecs, class F>
inline void for_each_vector(F f) noexcept {
  RUNNEL_UNROLL for (size_t v = 0; v < n_vecs; ++v) f(v);
}

}  // namespace
}  // namespace runnel::simd
