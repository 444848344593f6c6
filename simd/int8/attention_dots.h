// Attention over int8 keys and values in integer products, a line of 64 cached bytes at a time. Lines of keys
// are read in order: two blocks side by side took Zen 5 twice as long where they came from memory.
#pragma once
#include <algorithm>
#include <cstring>

#include "simd/int8/cached.h"
#include "simd/int8/factors.h"

namespace runnel::simd {
namespace {

// Rows of factors at a time: the query heads of a token that share a key.
constexpr size_t factor_rows = 8;
constexpr size_t cached_line = block_keys * dot_bytes;

// done(i, dots) for each of n_q rows, at most max_rows at a time: of the n_lines lines from line(step) on.
// Prefetches once what lies `ahead` of those from fetched(step) on: a run of keys or values, so that the next
// run comes from memory at the pace that this one is read, and none is prefetched twice or left out where
// runs are short.
template <class Numbers, size_t max_rows, size_t n_lines, class Line, class Fetched, class Done>
inline void multiply_lines(const Factors<Numbers>* rows, size_t n_q, size_t n_steps, size_t ahead, Line line,
                           Fetched fetched, Done done) noexcept {
  for_each_tile<max_rows>(n_q, [&](size_t first, auto n) {
    const size_t further = first > 0 ? 0 : ahead;
    I32 dots[n][n_lines * line_vecs];
    Numbers::template multiply<n>(dots, rows + first, n_steps, [&](size_t step) {
      const std::int8_t* const next = fetched(step) + further;
      RUNNEL_UNROLL for (size_t l = 0; l < n_lines; ++l) prefetch_l2(next + l * cached_line);
      return line(step);
    });
    for (size_t i = 0; i < n; ++i) done(first + i, dots[i]);
  });
}

// Of up to factor_rows queries.
template <class Numbers>
inline void score_rows(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                       const std::int8_t* k, const float* k_scales, size_t n_blocks, size_t dim,
                       size_t ahead) noexcept {
  Factors<Numbers> rows[factor_rows];
  for (size_t i = 0; i < n_q; ++i) rows[i].set(q + i * q_stride, dim);
  for (size_t b = 0; b < n_blocks; ++b) {
    const std::int8_t* const block = k + b * key_block<CachedI8>(dim);
    const auto line = [&](size_t step) { return block + step * cached_line; };
    multiply_lines<Numbers, Numbers::line_rows, 1>(
        rows, n_q, quant::divided_up(dim, dot_bytes), ahead, line, line,
        [&](size_t i, const I32(&dots)[line_vecs]) {
          for (size_t v = 0; v < line_vecs; ++v) {
            const size_t j = b * block_keys + v * lanes;
            store(s + i * s_stride + j, to_float(dots[v]) * F32(rows[i].scale) * load(k_scales + j));
          }
        });
  }
}

template <class Numbers>
void scores_i8_dots(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                    const std::int8_t* k, const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  if (dim > max_factors) return scores_of_i8(s, s_stride, q, q_stride, n_q, k, k_scales, n_blocks, dim);
  const size_t ahead = run_keys * quant::filled_up(dim, dot_bytes);
  for (size_t i = 0; i < n_q; i += factor_rows)
    score_rows<Numbers>(s + i * s_stride, s_stride, q + i * q_stride, q_stride,
                        std::min(factor_rows, n_q - i), k, k_scales, n_blocks, dim, i > 0 ? 0 : ahead);
}

// Columns are mixed a line of each step after another; with vectors of 8 numbers what comes next is
// prefetched in the order of memory all the same (the last lines are left out where steps end with a part of
// one). Other widths were not measured (tests/bench/experiments.md).
constexpr bool fetches_in_order = lanes == 8;

// The columns of n_lines lines, from d on.
template <class Numbers, size_t max_rows, size_t n_lines>
inline void mix_lines(float* y, size_t y_stride, const Factors<Numbers>* rows, size_t n_q,
                      const std::int8_t* v, size_t n_k, size_t dim, size_t d, size_t ahead) noexcept {
  const size_t n_steps = quant::divided_up(n_k, dot_bytes);
  const auto line = [&](size_t step) { return v + (step * dim + d) * dot_bytes; };
  const auto in_order = [&](size_t step) {
    return v + (d * n_steps + step * n_lines * block_keys) * dot_bytes;
  };
  multiply_lines<Numbers, max_rows, n_lines>(
      rows, n_q, n_steps, ahead, line,
      [&](size_t step) { return fetches_in_order ? in_order(step) : line(step); },
      [&](size_t i, const I32(&dots)[n_lines * line_vecs]) {
        RUNNEL_UNROLL for (size_t c = 0; c < n_lines * line_vecs; ++c) {
          float* const to = y + i * y_stride + d + c * lanes;
          store(to, fmadd(to_float(dots[c]), F32(rows[i].scale), load(to)));
        }
      });
}

// The columns from d on, which fill no line: copied into lines first.
template <class Numbers>
inline void mix_last_columns(float* y, size_t y_stride, const Factors<Numbers>* rows, size_t n_q,
                             const std::int8_t* v, size_t n_k, size_t dim, size_t d, size_t ahead) noexcept {
  const size_t n = dim - d, n_steps = quant::divided_up(n_k, dot_bytes);
  const auto columns = [&](size_t step) { return v + (step * dim + d) * dot_bytes; };
  alignas(line_bytes) std::int8_t lines[max_factors / dot_bytes][cached_line] = {};
  for (size_t step = 0; step < n_steps; ++step) std::memcpy(lines[step], columns(step), n * dot_bytes);
  multiply_lines<Numbers, Numbers::line_rows, 1>(
      rows, n_q, n_steps, ahead, [&](size_t step) { return lines[step]; }, columns,
      [&](size_t i, const I32(&dots)[line_vecs]) {
        float* const to = y + i * y_stride + d;
        float sums[block_keys] = {};
        std::memcpy(sums, to, n * sizeof *to);
        RUNNEL_UNROLL for (size_t c = 0; c < line_vecs; ++c)
            store(sums + c * lanes, fmadd(to_float(dots[c]), F32(rows[i].scale), load(sums + c * lanes)));
        std::memcpy(to, sums, n * sizeof *to);
      });
}

// Columns from d on, of up to factor_rows rows of weights over up to max_factors values.
template <class Numbers>
inline void mix_rows(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                     const std::int8_t* v, size_t n_k, size_t dim, size_t d, size_t ahead) noexcept {
  Factors<Numbers> rows[factor_rows];
  for (size_t i = 0; i < n_q; ++i) rows[i].set(p + i * p_stride, n_k);
  constexpr size_t wide = Numbers::wide_lines * block_keys;
  const bool are_near = ahead == 0;  // earlier rows have brought the values into the L1 cache
  for (; (n_q <= Numbers::wide_rows || are_near) && d + wide <= dim; d += wide)
    mix_lines<Numbers, Numbers::wide_rows, Numbers::wide_lines>(y, y_stride, rows, n_q, v, n_k, dim, d,
                                                                ahead);
  for (; d + block_keys <= dim; d += block_keys)
    mix_lines<Numbers, Numbers::line_rows, 1>(y, y_stride, rows, n_q, v, n_k, dim, d, ahead);
  if (d < dim) mix_last_columns(y, y_stride, rows, n_q, v, n_k, dim, d, ahead);
}

// Columns from d on.
template <class Numbers>
inline void mix_dots(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                     const std::int8_t* v, size_t n_k, size_t dim, size_t d) noexcept {
  for (size_t j = 0; j < n_k; j += max_factors) {
    const size_t n = std::min(max_factors, n_k - j), ahead = run_keys * dim;
    for (size_t i = 0; i < n_q; i += factor_rows)
      mix_rows<Numbers>(y + i * y_stride, y_stride, p + i * p_stride + j, p_stride,
                        std::min(factor_rows, n_q - i), v + j * dim, n, dim, d, i > 0 ? 0 : ahead);
  }
}

template <class Numbers>
void mix_i8_dots(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
                 size_t n_k, size_t dim) noexcept {
  mix_dots<Numbers>(y, y_stride, p, p_stride, n_q, v, n_k, dim, 0);
}

}  // namespace
}  // namespace runnel::simd
