// Products of a weight matrix and one vector.
#pragma once
#include "simd/matvec_rows.h"

namespace runnel::simd {
namespace {

// y[r * apart] = w[r * apart] . x, r < n_rows;  w: rows of n_cols. The order of the additions in a row does
// not depend on n_rows.
template <class Format, size_t n_rows>
inline void dot_rows(float* y, size_t apart, const typename Format::Element* w, size_t n_cols,
                     const float* x) noexcept {
  const auto at = [=](size_t r, size_t c) { return w + r * apart * n_cols + c; };
  RowSums sums;
  clear(sums);
  size_t c = 0;
  for (; c + 2 * lanes <= n_cols; c += 2 * lanes) {
    const F32 x0 = load(x + c);
    const F32 x1 = load(x + c + lanes);
    for (size_t r = 0; r < n_rows; ++r) {
      const auto* p = at(r, c);
      prefetch(p, prefetch_bytes / sizeof *p);
      sums[r][0] = fmadd(Format::load(p), x0, sums[r][0]);
      sums[r][1] = fmadd(Format::load(p + lanes), x1, sums[r][1]);
    }
  }
  if (c + lanes <= n_cols) {
    const F32 x0 = load(x + c);
    for (size_t r = 0; r < n_rows; ++r) sums[r][0] = fmadd(Format::load(at(r, c)), x0, sums[r][0]);
    c += lanes;
  }
  if (c < n_cols) {
    const F32 x1 = load_n(x + c, n_cols - c);
    for (size_t r = 0; r < n_rows; ++r)
      sums[r][1] = fmadd(Format::load_n(at(r, c), n_cols - c), x1, sums[r][1]);
  }
  store_row_sums<n_rows>(y, apart, sums);
}

template <class Format>
inline void matvec(float* y, const typename Format::Element* w, size_t n_rows, size_t n_cols,
                   const float* x) noexcept {
  for_each_rows(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_rows<Format, n>(y + r, apart, w + r * n_cols, n_cols, x);
  });
}

void matvec_f32(float* y, const float* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<AsF32>(y, w, n_rows, n_cols, x);
}
void matvec_f16(float* y, const F16* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<AsF16>(y, w, n_rows, n_cols, x);
}
void matvec_bf16(float* y, const BF16* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<AsBf16>(y, w, n_rows, n_cols, x);
}

}  // namespace
}  // namespace runnel::simd
