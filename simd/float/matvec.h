// Products of a weight matrix, as it lies, with one vector or a few.
#pragma once
#include "simd/matvec_rows.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// y[r * apart] = w[r * apart] . x, r < n_rows;  w: rows of n_cols. The order of the additions in a row does
// not depend on n_rows. Prefetches what lies `ahead` bytes further on, and ahead_l2 bytes into the L2 cache;
// 0: does not.
template <class Format, size_t n_rows, size_t ahead, size_t ahead_l2 = 0>
inline void dot_rows(float* y, size_t apart, const typename Format::Element* w, size_t n_cols,
                     const float* x) noexcept {
  RowSums<n_rows> sums;
  clear(sums);
  const auto add = [&](size_t c, size_t chain, auto load_weights, F32 inputs) {
    RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) {
      const auto* const p = w + r * apart * n_cols + c;
      if (ahead != 0 && chain == 0) prefetch(p, ahead / sizeof *p);
      if (ahead_l2 != 0 && chain == 0) prefetch_l2(p + ahead_l2 / sizeof *p);
      sums[r][chain] = fmadd(load_weights(p), inputs, sums[r][chain]);
    }
  };
  size_t c = 0;
  for (; c + 2 * lanes <= n_cols; c += 2 * lanes) {
    add(c, 0, Format::load, load(x + c));
    add(c + lanes, 1, Format::load, load(x + c + lanes));
  }
  if (c + lanes <= n_cols) {
    add(c, 0, Format::load, load(x + c));
    c += lanes;
  }
  if (const size_t n = n_cols - c; n != 0) {
    const auto load_rest = [=](const auto* p) { return Format::load_n(p, n); };
    add(c, 1, load_rest, load_n(x + c, n));
  }
  store_row_sums<n_rows>(y, apart, sums);
}

// Tiles of rows and tokens, whose sums are all in registers: of 16 on AVX2, of 32 elsewhere.
constexpr size_t few_rows_at_once = lanes == 8 ? 4 : 6;
constexpr size_t few_tokens_at_once = lanes == 8 ? 3 : 4;

// Of each of n rows, `stride` apart, as many columns are prefetched into the L2 cache as a tile has
// multiplied.
template <class Element>
struct RowsAhead {
  const Element* first;
  size_t stride, n;

  void fetch(size_t col) const noexcept {
    for (size_t i = 0; i < n; ++i) prefetch_l2(first + i * stride + col);
  }
};

// The same for several tokens, x_stride apart, whose outputs lie y_stride apart. The order of the additions
// is another one, and the same for any n_tok.
template <class Format, size_t n_rows, size_t n_tok>
inline void dot_tile(float* y, size_t y_stride, size_t apart, const typename Format::Element* w,
                     size_t n_cols, const float* x, size_t x_stride,
                     const RowsAhead<typename Format::Element>& next) noexcept {
  F32 sums[n_tok][n_rows];
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) sums[t][r] = F32(0.0f);
  }
  const auto add = [&](size_t c, auto load_weights, auto load_inputs) {
    F32 inputs[n_tok];
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) inputs[t] = load_inputs(x + t * x_stride + c);
    RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) {
      const F32 weights = load_weights(w + r * apart * n_cols + c);
      RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) sums[t][r] = fmadd(weights, inputs[t], sums[t][r]);
    }
  };
  constexpr size_t line = line_bytes / sizeof *w;
  size_t c = 0;
  for (; c + lanes <= n_cols; c += lanes) {
    if (c % line == 0) next.fetch(c);
    add(c, Format::load, load);
  }
  if (const size_t n = n_cols - c; n != 0) {
    const auto load_rest = [=](const auto* p) { return Format::load_n(p, n); };
    add(c, load_rest, [=](const float* p) { return load_n(p, n); });
  }
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) store_sums(y + t * y_stride, apart, sums[t]);
}

// All tokens with n_rows rows. Each tile prefetches some of the rows that come next: memory does not wait
// while later tokens find rows in the cache.
template <class Format, size_t n_rows>
inline void dot_few(float* y, size_t y_stride, size_t apart, const typename Format::Element* w, size_t n_cols,
                    const float* x, size_t x_stride, size_t n_tok) noexcept {
  const size_t row_stride = apart * n_cols;
  for (size_t t = 0; t < n_tok;) {
    const size_t n = next_tile(n_tok - t, few_tokens_at_once);
    const size_t begin = n_rows * t / n_tok, end = n_rows * (t + n) / n_tok;
    const RowsAhead<typename Format::Element> next{w + n_cols + begin * row_stride, row_stride, end - begin};
    with_constant<few_tokens_at_once>(n, [&](auto tokens) {
      dot_tile<Format, n_rows, tokens>(y + t * y_stride, y_stride, apart, w, n_cols, x + t * x_stride,
                                       x_stride, next);
    });
    t += n;
  }
}

template <class Format>
void matmul_several(float* y, size_t y_stride, const typename Format::Element* w, size_t n_rows,
                    size_t n_cols, const float* x, size_t x_stride, size_t n_tok) noexcept {
  for_each_rows<few_rows_at_once>(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_few<Format, n>(y + r, y_stride, apart, w + r * n_cols, n_cols, x, x_stride, n_tok);
  });
}

template <class Format, size_t ahead = prefetch_bytes>
void matmul_few(float* y, size_t y_stride, const typename Format::Element* w, size_t n_rows, size_t n_cols,
                const float* x, size_t x_stride, size_t n_tok) noexcept {
  if (n_tok != 1) return matmul_several<Format>(y, y_stride, w, n_rows, n_cols, x, x_stride, n_tok);
  for_each_rows(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_rows<Format, n, ahead>(y + r, apart, w + r * n_cols, n_cols, x);
  });
}

// The same bits. One token meets wide rows eight at a time.
template <class Format>
void matmul_few_wide(float* y, size_t y_stride, const typename Format::Element* w, size_t n_rows,
                     size_t n_cols, const float* x, size_t x_stride, size_t n_tok) noexcept {
  if (n_tok != 1 || !is_wide(n_cols * sizeof *x, n_cols * sizeof *w))
    return matmul_few<Format, 0>(y, y_stride, w, n_rows, n_cols, x, x_stride, n_tok);
  for_each_rows<wide_rows>(n_rows, [=](size_t r, size_t apart, auto n) {
    dot_rows<Format, n, 512, wide_ahead_l2>(y + r, apart, w + r * n_cols, n_cols, x);
  });
}

// More are multiplied faster by weights that are laid out for them, in int16 where these have 16 bits
// (tests/bench/experiments.md; not measured on ARM).
inline size_t most_few(size_t weight_bytes) noexcept {
  if (lanes < 8) return 6;
  if (weight_bytes == 4) return 48;
  return lanes == 16 ? 20 : 16;
}

}  // namespace
}  // namespace runnel::simd
