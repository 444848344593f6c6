// Work in tiles whose size the compiler knows.
#pragma once
#include <algorithm>
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

// The same where it is asked anew for what is left, in as few tiles, of which none is less than half as large
// as it may be: without a division, which takes as long as a fifth of a small tile.
constexpr size_t next_tile(size_t n, size_t max) noexcept {
  if (n >= 2 * max) return max;
  return n <= max ? n : quant::divided_up(n, size_t{2});
}

// work(n) with n as a constant, 1 <= n <= max.
template <size_t max, class Work>
inline void with_constant(size_t n, Work work) noexcept {
  if constexpr (max > 1) {
    if (n < max) return with_constant<max - 1>(n, work);
  }
  work(std::integral_constant<size_t, max>());
}

// work(rows, stride) for n_tok tokens and `whole` outputs: those of y, or a copy where it has n_rows only.
// is_first: y holds no sums yet that the work adds to.
template <size_t n_tok, size_t whole, class Work>
inline void with_whole_rows(float* y, size_t y_stride, size_t n_rows, bool is_first, Work work) noexcept {
  float copy[n_tok][whole];
  const bool is_whole = n_rows == whole;
  if (!is_whole && !is_first) {
    for (size_t t = 0; t < n_tok; ++t) std::copy_n(y + t * y_stride, n_rows, copy[t]);
  }
  work(is_whole ? y : copy[0], is_whole ? y_stride : whole);
  if (!is_whole) {
    for (size_t t = 0; t < n_tok; ++t) std::copy_n(copy[t], n_rows, y + t * y_stride);
  }
}

}  // namespace
}  // namespace runnel::simd
