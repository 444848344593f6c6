// Products of a weight matrix, as it lies, with one vector or a few.
#pragma once
#include "simd/matvec_rows.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// Tokens that meet rows at a time; the others find these in the L1 cache. All sums are in registers: of 4
// rows on AVX-512 and NEON, of 2 on AVX2.
constexpr size_t few_tokens_at_once = 3;
constexpr size_t few_rows_at_once = lanes == 8 ? 2 : matvec_rows;

// y[t * y_stride + r * apart] = w[r * apart] . x[t * x_stride], r < n_rows, t < n_tok;  w: rows of n_cols.
// The order of the additions in a row does not depend on n_rows or n_tok. Prefetches what lies `ahead` bytes
// further on, and ahead_l2 bytes into the L2 cache; 0: does not.
template <class Format, size_t n_rows, size_t n_tok, size_t ahead, size_t ahead_l2 = 0>
inline void dot_rows(float* y, size_t y_stride, size_t apart, const typename Format::Element* w,
                     size_t n_cols, const float* x, size_t x_stride) noexcept {
  RowSums<n_rows> sums[n_tok];
  for (auto& token : sums) clear(token);
  const auto add = [&](size_t c, size_t chain, auto load_weights, auto load_inputs) {
    F32 inputs[n_tok];
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) inputs[t] = load_inputs(x + t * x_stride + c);
    RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) {
      const auto* const p = w + r * apart * n_cols + c;
      if (ahead != 0 && chain == 0) prefetch(p, ahead / sizeof *p);
      if (ahead_l2 != 0 && chain == 0) prefetch_l2(p + ahead_l2 / sizeof *p);
      const F32 weights = load_weights(p);
      RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) sums[t][r][chain] =
          fmadd(weights, inputs[t], sums[t][r][chain]);
    }
  };
  const auto add_whole = [&](size_t c, size_t chain) { add(c, chain, Format::load, load); };
  size_t c = 0;
  for (; c + 2 * lanes <= n_cols; c += 2 * lanes) {
    add_whole(c, 0);
    add_whole(c + lanes, 1);
  }
  if (c + lanes <= n_cols) {
    add_whole(c, 0);
    c += lanes;
  }
  if (const size_t n = n_cols - c; n != 0) {
    add(
        c, 1, [=](const auto* p) { return Format::load_n(p, n); },
        [=](const float* p) { return load_n(p, n); });
  }
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) store_row_sums<n_rows>(y + t * y_stride, apart, sums[t]);
}

// All tokens with n_rows rows.
template <class Format, size_t n_rows, size_t ahead>
inline void dot_few(float* y, size_t y_stride, size_t apart, const typename Format::Element* w, size_t n_cols,
                    const float* x, size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok;) {
    const size_t n = next_tile(n_tok - t, few_tokens_at_once);
    with_constant<few_tokens_at_once>(n, [&](auto tokens) {
      float* const part = y + t * y_stride;
      if (t == 0)
        dot_rows<Format, n_rows, tokens, ahead>(part, y_stride, apart, w, n_cols, x, x_stride);
      else
        dot_rows<Format, n_rows, tokens, 0>(part, y_stride, apart, w, n_cols, x + t * x_stride, x_stride);
    });
    t += n;
  }
}

template <class Format, size_t ahead = prefetch_bytes>
void matmul_few(float* y, size_t y_stride, const typename Format::Element* w, size_t n_rows, size_t n_cols,
                const float* x, size_t x_stride, size_t n_tok) noexcept {
  for_each_rows(n_rows, [=](size_t r, size_t apart, auto n) {
    const auto* const rows = w + r * n_cols;
    if (n_tok == 1) return dot_rows<Format, n, 1, ahead>(y + r, 0, apart, rows, n_cols, x, 0);
    constexpr size_t at_once = n < few_rows_at_once ? n : few_rows_at_once;
    for (size_t i = 0; i < n; i += at_once) {
      dot_few<Format, at_once, ahead>(y + r + i * apart, y_stride, apart, rows + i * apart * n_cols, n_cols,
                                      x, x_stride, n_tok);
    }
  });
}

// The same bits. One token meets wide rows eight at a time.
template <class Format>
void matmul_few_wide(float* y, size_t y_stride, const typename Format::Element* w, size_t n_rows,
                     size_t n_cols, const float* x, size_t x_stride, size_t n_tok) noexcept {
  if (n_tok != 1 || !is_wide(n_cols * sizeof *x, n_cols * sizeof *w))
    return matmul_few<Format, 0>(y, y_stride, w, n_rows, n_cols, x, x_stride, n_tok);
  for_each_rows<wide_rows>(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_rows<Format, n, 1, 512, wide_ahead_l2>(y + r, 0, apart, w + r * n_cols, n_cols, x, 0);
  });
}

// More are multiplied faster by weights that are laid out for them (tests/bench/experiments.md).
inline size_t most_few(size_t weight_bytes) noexcept { return lanes == 16 && weight_bytes == 2 ? 12 : 6; }

}  // namespace
}  // namespace runnel::simd
