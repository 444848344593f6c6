// Attention of a group of queries over one block of keys and values. Tiles of several queries, so that a key
// or value that is loaded (and widened) serves all of them.
#pragma once
#include <algorithm>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t tile_keys = 4;
constexpr size_t max_tile_queries = lanes == 8 ? 2 : 4;  // AVX2 has 16 registers, the others 32

// s[i, j] = q[i] . k[j], i < n_q, j < n <= 4: one accumulator a pair, whose order does not depend on the
// tile.
template <class Format, size_t n_q>
inline void score_tile(float* s, size_t s_stride, const float* q, size_t q_stride,
                       const typename Format::Element* k, size_t n, size_t dim) noexcept {
  const typename Format::Element*
      keys[tile_keys];  // past the last key: the last again, its score is not stored
  for (size_t j = 0; j < tile_keys; ++j) keys[j] = k + std::min(j, n - 1) * dim;
  F32 sums[n_q][tile_keys];
  for (auto& row : sums) std::fill_n(row, tile_keys, F32(0.0f));
  size_t d = 0;
  for (; d + lanes <= dim; d += lanes) {
    F32 q_d[n_q];
    for (size_t i = 0; i < n_q; ++i) q_d[i] = load(q + i * q_stride + d);
    for (size_t j = 0; j < tile_keys; ++j) {
      const F32 k_d = Format::load(keys[j] + d);
      for (size_t i = 0; i < n_q; ++i) sums[i][j] = fmadd(q_d[i], k_d, sums[i][j]);
    }
  }
  if (d < dim) {
    for (size_t j = 0; j < tile_keys; ++j) {
      const F32 k_d = Format::load_n(keys[j] + d, dim - d);
      for (size_t i = 0; i < n_q; ++i)
        sums[i][j] = fmadd(load_n(q + i * q_stride + d, dim - d), k_d, sums[i][j]);
    }
  }
  for (size_t i = 0; i < n_q; ++i) {
    const F32x4 row = sum4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    if (n == tile_keys) {
      store4(s + i * s_stride, row);
    } else {
      store4_n(s + i * s_stride, row, n);
    }
  }
}

// All queries, in tiles of n_tile; what is left goes on to smaller tiles.
template <class Format, size_t n_tile>
inline void score_queries(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                          const typename Format::Element* k, size_t n_k, size_t dim) noexcept {
  for (; n_q >= n_tile; n_q -= n_tile, q += n_tile * q_stride, s += n_tile * s_stride) {
    for (size_t j = 0; j < n_k; j += tile_keys) {
      score_tile<Format, n_tile>(s + j, s_stride, q, q_stride, k + j * dim, std::min(tile_keys, n_k - j),
                                 dim);
    }
  }
  if constexpr (n_tile > 1) {
    if (n_q != 0) score_queries<Format, n_tile / 2>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
  }
}

void scores_f32(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,
                size_t n_k, size_t dim) noexcept {
  score_queries<AsF32, max_tile_queries>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
}
void scores_f16(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,
                size_t n_k, size_t dim) noexcept {
  score_queries<AsF16, max_tile_queries>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
}

void scores_i8(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const std::int8_t* k,
               size_t n_k, size_t dim) noexcept {
  score_queries<AsI8, max_tile_queries>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
}

// Columns [0, n_vecs * lanes) of y[i] += sum_j p[i, j] v[j]: one chain of additions a number, in the order of
// j.
template <class Format, size_t n_q, size_t n_vecs>
inline void mix_tile(float* y, size_t y_stride, const float* p, size_t p_stride,
                     const typename Format::Element* v, size_t n_k, size_t dim) noexcept {
  F32 sums[n_q][n_vecs];
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t d = 0; d < n_vecs; ++d) sums[i][d] = load(y + i * y_stride + d * lanes);
  }
  for (size_t j = 0; j < n_k; ++j) {
    F32 p_j[n_q];
    for (size_t i = 0; i < n_q; ++i) p_j[i] = F32(p[i * p_stride + j]);
    for (size_t d = 0; d < n_vecs; ++d) {
      const F32 v_d = Format::load(v + j * dim + d * lanes);
      for (size_t i = 0; i < n_q; ++i) sums[i][d] = fmadd(p_j[i], v_d, sums[i][d]);
    }
  }
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t d = 0; d < n_vecs; ++d) store(y + i * y_stride + d * lanes, sums[i][d]);
  }
}

// The last n < lanes columns.
template <class Format, size_t n_q>
inline void mix_tail(float* y, size_t y_stride, const float* p, size_t p_stride,
                     const typename Format::Element* v, size_t n_k, size_t dim, size_t n) noexcept {
  F32 sums[n_q];
  for (size_t i = 0; i < n_q; ++i) sums[i] = load_n(y + i * y_stride, n);
  for (size_t j = 0; j < n_k; ++j) {
    const F32 v_j = Format::load_n(v + j * dim, n);
    for (size_t i = 0; i < n_q; ++i) sums[i] = fmadd(F32(p[i * p_stride + j]), v_j, sums[i]);
  }
  for (size_t i = 0; i < n_q; ++i) store_n(y + i * y_stride, sums[i], n);
}

template <class Format, size_t n_tile>
inline void mix_queries(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                        const typename Format::Element* v, size_t n_k, size_t dim) noexcept {
  constexpr size_t n_vecs = n_tile == 1 ? 8 : 4;
  for (; n_q >= n_tile; n_q -= n_tile, y += n_tile * y_stride, p += n_tile * p_stride) {
    size_t d = 0;
    for (; d + n_vecs * lanes <= dim; d += n_vecs * lanes) {
      mix_tile<Format, n_tile, n_vecs>(y + d, y_stride, p, p_stride, v + d, n_k, dim);
    }
    for (; d + lanes <= dim; d += lanes)
      mix_tile<Format, n_tile, 1>(y + d, y_stride, p, p_stride, v + d, n_k, dim);
    if (d < dim) mix_tail<Format, n_tile>(y + d, y_stride, p, p_stride, v + d, n_k, dim, dim - d);
  }
  if constexpr (n_tile > 1) {
    if (n_q != 0) mix_queries<Format, n_tile / 2>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
  }
}

void mix_f32(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,
             size_t n_k, size_t dim) noexcept {
  mix_queries<AsF32, max_tile_queries>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_f16(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v, size_t n_k,
             size_t dim) noexcept {
  mix_queries<AsF16, max_tile_queries>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_i8(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
            size_t n_k, size_t dim) noexcept {
  mix_queries<AsI8, max_tile_queries>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

}  // namespace
}  // namespace runnel::simd
