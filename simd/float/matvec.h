// Products of a weight matrix, as it lies, with one vector or a few.
#pragma once
#include "simd/matvec_rows.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// Tiles of rows and several tokens, whose sums are all in registers: of 32, on AVX2 of 16. With shorter
// vectors than AVX-512's each row and token has two sums, because with one the few rows that are read at a
// time for a single token leave units idle out of the caches.
constexpr size_t sums_of_row = lanes == 16 ? 1 : 2;
constexpr size_t few_rows_at_once = lanes == 16 ? 6 : lanes == 8 ? 2 : 4;
constexpr size_t few_tokens_at_once = lanes == 16 ? 4 : 3;

// Of each of n rows, `stride` apart, as many columns are prefetched into the L2 cache as others have
// multiplied.
template <class Element>
struct RowsAhead {
  const Element* first = nullptr;
  size_t stride = 0, n = 0;

  void fetch(size_t col) const noexcept {
    for (size_t i = 0; i < n; ++i) prefetch_l2(first + i * stride + col);
  }
};

// y[t * y_stride + r * apart] = w[r * apart] . x[t * x_stride], r < n_rows, t < n_tok;  w: rows of n_cols.
// The order of the additions in a row does not depend on n_rows or n_tok. Prefetches what lies `ahead` bytes
// further on, and ahead_l2 bytes into the L2 cache; 0: does not. With several tokens prefetches the next
// rows.
template <class Format, size_t n_rows, size_t n_tok, size_t ahead, size_t ahead_l2 = 0>
inline void dot_rows(float* y, size_t y_stride, size_t apart, const typename Format::Element* w,
                     size_t n_cols, const float* x, size_t x_stride,
                     const RowsAhead<typename Format::Element>& next = {}) noexcept {
  F32 sums[sums_of_row][n_tok][n_rows];
  RUNNEL_UNROLL for (size_t i = 0; i < sums_of_row; ++i) {
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) sums[i][t][r] = F32(0.0f);
    }
  }
  const auto add = [&](size_t c, size_t i, auto load_weights, auto load_inputs) {
    F32 inputs[n_tok];
    RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) inputs[t] = load_inputs(x + t * x_stride + c);
    RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) {
      const auto* const p = w + r * apart * n_cols + c;
      const F32 weights = load_weights(p);
      RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) sums[i][t][r] =
          fmadd(weights, inputs[t], sums[i][t][r]);
    }
  };
  constexpr size_t line = line_bytes / sizeof *w;
  const auto fetch = [&](size_t c) {
    if (n_tok > 1 && c % line == 0) next.fetch(c);
    if ((ahead != 0 || ahead_l2 != 0) && c % (2 * lanes) == 0) {
      RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) {
        const auto* const p = w + r * apart * n_cols + c;
        if (ahead != 0) prefetch(p, ahead / sizeof *p);
        if (ahead_l2 != 0) prefetch_l2(p + ahead_l2 / sizeof *p);
      }
    }
  };
  size_t c = 0;
  for (; c + sums_of_row * lanes <= n_cols; c += sums_of_row * lanes) {
    fetch(c);
    RUNNEL_UNROLL for (size_t i = 0; i < sums_of_row; ++i) add(c + i * lanes, i, Format::load, load);
  }
  if (sums_of_row > 1 && c + lanes <= n_cols) {
    add(c, 0, Format::load, load);
    c += lanes;
  }
  if (const size_t n = n_cols - c; n != 0) {
    const auto load_rest = [=](const auto* p) { return Format::load_n(p, n); };
    add(c, sums_of_row - 1, load_rest, [=](const float* p) { return load_n(p, n); });
  }
  RUNNEL_UNROLL for (size_t t = 0; t < n_tok; ++t) {
    if constexpr (sums_of_row > 1) {
      RUNNEL_UNROLL for (size_t r = 0; r < n_rows; ++r) sums[0][t][r] = sums[0][t][r] + sums[1][t][r];
    }
    store_sums(y + t * y_stride, apart, sums[0][t]);
  }
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
      dot_rows<Format, n_rows, tokens, 0>(y + t * y_stride, y_stride, apart, w, n_cols, x + t * x_stride,
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
    dot_rows<Format, n, 1, ahead>(y + r, 0, apart, w + r * n_cols, n_cols, x, 0);
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

// More are multiplied faster by weights that are laid out for them, in int16 where these have 16 bits
// (tests/bench/experiments.md; not measured on ARM).
inline size_t most_few(size_t weight_bytes) noexcept {
  if (lanes == 16) return weight_bytes == 2 ? 20 : 48;
  return lanes == 8 && weight_bytes == 4 ? 16 : 6;
}

}  // namespace
}  // namespace runnel::simd
