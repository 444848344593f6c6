// Attention of a group of queries over a run of keys and values. Tiles of several queries, so that a key or
// value that is loaded (and widened) serves all of them.
#pragma once
#include <algorithm>

#include "simd/float/elementwise.h"
#include "simd/tiles.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// AVX2 has 16 registers, the others 32. A tile's sums fill half of them at most.
constexpr size_t max_tile_sums = lanes == 8 ? 8 : 16;
constexpr size_t max_tile_queries = lanes == 16 ? 8 : 4;
// So many bytes ahead are asked for, into the L2 cache: a core has far fewer places for lines on their way to
// the L1 cache than to the L2.
constexpr size_t bytes_ahead = 4096;

// tile(first, n) for all queries; n is a constant for the compiler.
template <class Tile>
inline void for_each_tile(size_t n_q, Tile tile) noexcept {
  for (size_t first = 0; first < n_q;) {
    const size_t n = even_tile(n_q - first, max_tile_queries);
    with_constant<max_tile_queries>(n, [&](auto size) { tile(first, size); });
    first += n;
  }
}

// s[i, 16 b + j] = q[i] . k[b, :, j], i < n_q, b < n_blocks: a lane a key, one chain of additions in the
// order of d.
template <class Format, size_t n_q, size_t n_blocks>
inline void score_tile(float* s, size_t s_stride, const float* q, size_t q_stride,
                       const typename Format::Element* k, size_t dim) noexcept {
  constexpr size_t vecs = block_keys / lanes;
  // At least the blocks of the next tile: all of this one's are being read.
  const size_t ahead = std::max(bytes_ahead / sizeof *k, n_blocks * dim * block_keys);
  F32 sums[n_q][n_blocks * vecs];
  for (auto& row : sums) std::fill_n(row, n_blocks * vecs, F32(0.0f));
  for (size_t d = 0; d < dim; ++d) {
    F32 k_d[n_blocks * vecs];
    RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v) {
      const typename Format::Element* const block = k + (v / vecs * dim + d) * block_keys;
      k_d[v] = Format::load(block + v % vecs * lanes);
      // Up to four times for a line: if it were asked here which is the first, GCC 12 would hold the sums of
      // AVX2 in memory.
      if (v % vecs == 0) prefetch_l2(block + ahead);
    }
    RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
      const F32 q_d(q[i * q_stride + d]);
      RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v) sums[i][v] = fmadd(q_d, k_d[v], sums[i][v]);
    }
  }
  RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
    RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v)
        store(s + i * s_stride + v * lanes, sums[i][v]);
  }
}

template <class Format>
inline void scores(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                   const typename Format::Element* k, size_t n_blocks, size_t dim) noexcept {
  for_each_tile(n_q, [=](size_t first, auto n) {
    constexpr size_t most = max_tile_sums / (n * (block_keys / lanes));
    constexpr size_t tile_blocks = std::clamp<size_t>(most, 1, 4);
    const float* const tile_q = q + first * q_stride;
    size_t b = 0;
    const auto at = [&](size_t i) { return s + first * s_stride + i * block_keys; };
    for (; b + tile_blocks <= n_blocks; b += tile_blocks)
      score_tile<Format, n, tile_blocks>(at(b), s_stride, tile_q, q_stride, k + b * dim * block_keys, dim);
    for (; b < n_blocks; ++b)
      score_tile<Format, n, 1>(at(b), s_stride, tile_q, q_stride, k + b * dim * block_keys, dim);
  });
}

void scores_f32(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<AsF32>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}
void scores_f16(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<AsF16>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}
void scores_i8(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const std::int8_t* k,
               const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  scores<AsI8>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
  for (size_t i = 0; i < n_q; ++i) mul(s + i * s_stride, k_scales, n_blocks * block_keys);
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
    F32 v_j[n_vecs];
    RUNNEL_UNROLL for (size_t d = 0; d < n_vecs * lanes; d += line_bytes / sizeof *v)
        prefetch_l2(v + j * dim + d + bytes_ahead / sizeof *v);
    RUNNEL_UNROLL for (size_t d = 0; d < n_vecs; ++d) v_j[d] = Format::load(v + j * dim + d * lanes);
    RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
      const F32 p_j(p[i * p_stride + j]);
      RUNNEL_UNROLL for (size_t d = 0; d < n_vecs; ++d) sums[i][d] = fmadd(p_j, v_j[d], sums[i][d]);
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

// As many columns as can be in tiles of n_vecs vectors, the others in narrower ones.
template <class Format, size_t n_q, size_t n_vecs>
inline void mix_columns(float* y, size_t y_stride, const float* p, size_t p_stride,
                        const typename Format::Element* v, size_t n_k, size_t dim, size_t d) noexcept {
  for (; d + n_vecs * lanes <= dim; d += n_vecs * lanes)
    mix_tile<Format, n_q, n_vecs>(y + d, y_stride, p, p_stride, v + d, n_k, dim);
  if constexpr (n_vecs > 1) {
    mix_columns<Format, n_q, n_vecs / 2>(y, y_stride, p, p_stride, v, n_k, dim, d);
  } else if (d < dim) {
    mix_tail<Format, n_q>(y + d, y_stride, p, p_stride, v + d, n_k, dim, dim - d);
  }
}

template <class Format>
inline void mix(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                const typename Format::Element* v, size_t n_k, size_t dim) noexcept {
  for_each_tile(n_q, [=](size_t first, auto n) {
    constexpr size_t n_vecs = n * 8 <= max_tile_sums ? 8 : n * 4 <= max_tile_sums ? 4 : 2;
    mix_columns<Format, n, n_vecs>(y + first * y_stride, y_stride, p + first * p_stride, p_stride, v, n_k,
                                   dim, 0);
  });
}

void mix_f32(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,
             size_t n_k, size_t dim) noexcept {
  mix<AsF32>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_f16(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v, size_t n_k,
             size_t dim) noexcept {
  mix<AsF16>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_i8(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
            size_t n_k, size_t dim) noexcept {
  mix<AsI8>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

}  // namespace
}  // namespace runnel::simd
