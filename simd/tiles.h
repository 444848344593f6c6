// Work in tiles whose size the compiler knows.
#pragma once
#include <cstddef>
#include <type_traits>

#include "quant/round_up.h"

namespace runnel::simd {
namespace {

using std::size_t;

// Of n things in as few tiles of at most `max` as can be, and these as even as can be: the size of the first.
constexpr size_t even_tile(size_t n, size_t max) noexcept {
  return quant::divided_up(n, quant::divided_up(n, max));
}

// work(n) with n as a constant, 1 <= n <= max.
template <size_t max, class Work>
inline void with_constant(size_t n, Work work) noexcept {
  if constexpr (max > 1) {
    if (n < max) return with_constant<max - 1>(n, work);
  }
  work(std::integral_constant<size_t, max>());
}

}  // namespace
}  // namespace runnel::simd
