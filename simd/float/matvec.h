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

// sum_i qs[i] x[i] over one block, still spread over the lanes.
inline F32 dot_block(const quant::BlockQ8_0& block, const float* x) noexcept {
  F32 sum = load_i8(block.qs) * load(x);
  for (size_t i = lanes; i < quant::BlockQ8_0::size; i += lanes)
    sum = fmadd(load_i8(block.qs + i), load(x + i), sum);
  return sum;
}

// The same with rows of n_blocks;  x: [n_blocks * 32].
template <size_t n_rows>
inline void dot_rows_q8_0(float* y, size_t apart, const quant::BlockQ8_0* w, size_t n_blocks,
                          const float* x) noexcept {
  RowSums sums;
  clear(sums);
  for_each_block<n_rows>(w, apart, n_blocks, n_blocks, [&](const auto& blocks, size_t b, size_t parity) {
    for (size_t r = 0; r < n_rows; ++r) {
      const F32 dots = dot_block(*blocks[r], x + b * quant::BlockQ8_0::size);
      sums[r][parity] = fmadd(F32(scale_of(*blocks[r])), dots, sums[r][parity]);
    }
  });
  store_row_sums<n_rows>(y, apart, sums);
}

void matvec_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  const size_t n_blocks = n_cols / quant::BlockQ8_0::size;
  fetch_first_blocks(w, n_rows, n_blocks);
  for_each_rows(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_rows_q8_0<n>(y + r, apart, w + r * n_blocks, n_blocks, x);
  });
}

}  // namespace
}  // namespace runnel::simd
