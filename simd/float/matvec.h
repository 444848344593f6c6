// Products of a weight matrix and one vector. Bound by memory: several rows at a time keep several streams of
// reads in flight, and each part of x that is loaded serves all of them.
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t matvec_rows = 4;
constexpr size_t prefetch_bytes = 1536;  // how far ahead of the reads

// How many elements ahead of element c of every row to prefetch, where n_rows rows of n_cols are read side by
// side: near the end of a row that is in the next group of rows, as a row is often too short for the CPU to
// see a stream in it.
template <class T>
inline size_t prefetch_distance(size_t c, size_t n_rows, size_t n_cols) noexcept {
  constexpr size_t distance = prefetch_bytes / sizeof(T);
  return c + distance < n_cols ? distance : distance + (n_rows - 1) * n_cols;
}

// Adds up the two accumulators of each row and stores n <= matvec_rows of the sums.
inline void store_row_sums(float* y, const F32 (&sums)[matvec_rows][2], size_t n) noexcept {
  const F32x4 all = sum4(sums[0][0] + sums[0][1], sums[1][0] + sums[1][1], sums[2][0] + sums[2][1],
                         sums[3][0] + sums[3][1]);
  if (n == matvec_rows) {
    store4(y, all);
  } else {
    store4_n(y, all, n);
  }
}

// y: [n_rows], w: [n_rows, n_cols]. The order of the additions in a row does not depend on n_rows.
template <class Format, size_t n_rows>
inline void dot_rows(float* y, const typename Format::Element* w, size_t n_cols, const float* x) noexcept {
  F32 sums[matvec_rows][2];
  for (auto& pair : sums) pair[0] = pair[1] = F32(0.0f);
  size_t c = 0;
  for (; c + 2 * lanes <= n_cols; c += 2 * lanes) {
    const F32 x0 = load(x + c);
    const F32 x1 = load(x + c + lanes);
    const size_t ahead = prefetch_distance<typename Format::Element>(c, n_rows, n_cols);
    for (size_t r = 0; r < n_rows; ++r) {
      const auto* p = w + r * n_cols + c;
      prefetch(p, ahead);
      sums[r][0] = fmadd(Format::load(p), x0, sums[r][0]);
      sums[r][1] = fmadd(Format::load(p + lanes), x1, sums[r][1]);
    }
  }
  if (c + lanes <= n_cols) {
    const F32 x0 = load(x + c);
    for (size_t r = 0; r < n_rows; ++r) sums[r][0] = fmadd(Format::load(w + r * n_cols + c), x0, sums[r][0]);
    c += lanes;
  }
  if (c < n_cols) {
    const F32 x1 = load_n(x + c, n_cols - c);
    for (size_t r = 0; r < n_rows; ++r) {
      sums[r][1] = fmadd(Format::load_n(w + r * n_cols + c, n_cols - c), x1, sums[r][1]);
    }
  }
  store_row_sums(y, sums, n_rows);
}

template <class Format>
inline void matvec(float* y, const typename Format::Element* w, size_t n_rows, size_t n_cols,
                   const float* x) noexcept {
  size_t r = 0;
  for (; r + matvec_rows <= n_rows; r += matvec_rows)
    dot_rows<Format, matvec_rows>(y + r, w + r * n_cols, n_cols, x);
  for (; r < n_rows; ++r) dot_rows<Format, 1>(y + r, w + r * n_cols, n_cols, x);
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

// y: [n_rows], w: [n_rows, n_blocks], x: [n_blocks * 32]. Even blocks go to one accumulator, odd ones to the
// other.
template <size_t n_rows>
inline void dot_rows_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_blocks, const float* x) noexcept {
  F32 sums[matvec_rows][2];
  for (auto& pair : sums) pair[0] = pair[1] = F32(0.0f);
  const auto add_block = [&](size_t b, size_t parity) {
    const size_t ahead = prefetch_distance<quant::BlockQ8_0>(b, n_rows, n_blocks);
    for (size_t r = 0; r < n_rows; ++r) {
      const quant::BlockQ8_0& block = w[r * n_blocks + b];
      prefetch(&block, ahead);
      const F32 dot = dot_block(block, x + b * quant::BlockQ8_0::size);
      sums[r][parity] = fmadd(load_scale(block), dot, sums[r][parity]);
    }
  };
  size_t b = 0;
  for (; b + 2 <= n_blocks; b += 2) {
    add_block(b, 0);
    add_block(b + 1, 1);
  }
  if (b < n_blocks) add_block(b, 0);
  store_row_sums(y, sums, n_rows);
}

void matvec_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  const size_t n_blocks = n_cols / quant::BlockQ8_0::size;
  size_t r = 0;
  for (; r + matvec_rows <= n_rows; r += matvec_rows) {
    dot_rows_q8_0<matvec_rows>(y + r, w + r * n_blocks, n_blocks, x);
  }
  for (; r < n_rows; ++r) dot_rows_q8_0<1>(y + r, w + r * n_blocks, n_blocks, x);
}

}  // namespace
}  // namespace runnel::simd
