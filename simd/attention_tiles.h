// Attention of a group of queries over a run of keys and values, as floats, for every type they are cached
// in. Tiles of several queries, so that a key or value that is loaded (and widened) serves all of them.
#pragma once
#include <algorithm>

#include "simd/tiles.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// AVX2 has 16 registers, the others 32. A tile's sums fill half of them at most.
constexpr size_t max_tile_sums = lanes == 8 ? 8 : 16;
constexpr size_t max_tile_queries = lanes == 16 ? 8 : 4;
// Up to max_tile_queries are a single token's, whose keys and values come from memory. There the order in
// which lines are read counts for more than sums that wait for each other or values that are widened twice:
// blocks of keys are read one after another where there are in_order_sums for each, and values in tiles of so
// few queries that a tile has whole lines of them. (Measured with AVX-512, tests/bench/experiments.md.)
constexpr size_t in_order_sums = lanes == 16 ? 4 : max_tile_sums;
constexpr size_t in_order_queries = 4;

// How f32 and f16 numbers are cached. Keys in blocks: [dim, block_keys]; values: [n_k, dim].
template <class Format>
struct CachedFloats {
  using Element = typename Format::Element;
  static constexpr size_t together = 1;  // numbers of a key, or values, that lie side by side

  // Number d of the keys of a block from `first` on.
  static F32 keys(const Element* block, size_t d, size_t first) noexcept {
    return Format::load(block + d * block_keys + first);
  }
  // Numbers of value j from d on.
  static F32 value(const Element* v, size_t dim, size_t j, size_t d) noexcept {
    return Format::load(v + j * dim + d);
  }
  static F32 value_n(const Element* v, size_t dim, size_t j, size_t d, size_t n) noexcept {
    return Format::load_n(v + j * dim + d, n);
  }
};

// Elements of a block of keys.
template <class Cached>
constexpr size_t key_block(size_t dim) noexcept {
  return quant::filled_up(dim, Cached::together) * block_keys;
}

// So far ahead, in elements, keys and values are prefetched, into the L2 cache: a core has far fewer buffers
// for lines in flight to the L1 cache than to the L2. On AVX2 a whole run, as for int8, or what small
// caches have room for; elsewhere, as measured with AVX-512, a quarter of the keys of a run, and 6 KB of
// values: with 8 a token takes up to 1.1 times as long (tests/bench/experiments.md).
template <class Cached>
constexpr size_t most_ahead = 65536 / sizeof(typename Cached::Element);
template <class Cached>
constexpr size_t keys_ahead(size_t dim) noexcept {
  return std::min((lanes == 8 ? run_keys : run_keys / 4) * dim, most_ahead<Cached>);
}
template <class Cached>
constexpr size_t values_ahead(size_t dim) noexcept {
  return lanes == 8 ? std::min(run_keys * dim, most_ahead<Cached>) : 6144 / sizeof(typename Cached::Element);
}

// tile(first, n) for all queries, at most `most` at a time; n is a constant for the compiler.
template <size_t most, class Tile>
inline void for_each_tile(size_t n_q, Tile tile) noexcept {
  for (size_t first = 0; first < n_q;) {
    const size_t n = next_tile(n_q - first, most);
    with_constant<most>(n, [&](auto size) { tile(first, size); });
    first += n;
  }
}

// one(i) for i < n; before each whole `together` of them first(i). The compiler knows i % together.
template <size_t together, class One, class First>
inline void in_pieces(size_t n, One one, First first) noexcept {
  for (size_t few = 0; few < n / together; ++few) {
    first(few * together);
    RUNNEL_UNROLL for (size_t i = 0; i < together; ++i) one(few * together + i);
  }
  if constexpr (together > 1) {
    for (size_t i = n / together * together; i < n; ++i) one(i);
  }
}

// s[i, 16 b + j] = q[i] . key j of block b, i < n_q, b < n_blocks: a lane a key, one chain of additions in
// the order of d.
template <class Cached, size_t n_q, size_t n_blocks>
inline void score_tile(float* s, size_t s_stride, const float* q, size_t q_stride,
                       const typename Cached::Element* k, size_t dim) noexcept {
  constexpr size_t vecs = block_keys / lanes, together = Cached::together;
  // At least the blocks of the next tile: all of this one's are being read.
  const size_t ahead = std::max(keys_ahead<Cached>(dim), n_blocks * key_block<Cached>(dim));
  const auto block = [&](size_t b) { return k + b * key_block<Cached>(dim); };
  F32 sums[n_q][n_blocks * vecs];
  for (auto& row : sums) std::fill_n(row, n_blocks * vecs, F32(0.0f));
  const auto add = [&](size_t d) {
    F32 k_d[n_blocks * vecs];
    RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v) k_d[v] =
        Cached::keys(block(v / vecs), d, v % vecs * lanes);
    RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
      const F32 q_d(q[i * q_stride + d]);
      RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v) sums[i][v] = fmadd(q_d, k_d[v], sums[i][v]);
    }
  };
  in_pieces<together>(dim, add, [&](size_t d) {
    // Lines of f16 keys are prefetched twice: a test for which half it is makes GCC 12 hold the sums of AVX2
    // in memory.
    RUNNEL_UNROLL for (size_t b = 0; b < n_blocks; ++b)
        prefetch_lines(block(b) + d * block_keys + ahead, together * block_keys);
  });
  RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
    RUNNEL_UNROLL for (size_t v = 0; v < n_blocks * vecs; ++v)
        store(s + i * s_stride + v * lanes, sums[i][v]);
  }
}

template <class Cached>
inline void scores(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                   const typename Cached::Element* k, size_t n_blocks, size_t dim) noexcept {
  for_each_tile<max_tile_queries>(n_q, [=](size_t first, auto n) {
    constexpr size_t block_sums = n * (block_keys / lanes);
    constexpr size_t tile_blocks = std::clamp<size_t>(max_tile_sums / block_sums, 1, 4);
    const bool in_order = n_q <= max_tile_queries && block_sums >= in_order_sums;
    const float* const tile_q = q + first * q_stride;
    size_t b = 0;
    const auto at = [&](size_t i) { return s + first * s_stride + i * block_keys; };
    const auto keys = [&](size_t i) { return k + i * key_block<Cached>(dim); };
    for (; !in_order && b + tile_blocks <= n_blocks; b += tile_blocks)
      score_tile<Cached, n, tile_blocks>(at(b), s_stride, tile_q, q_stride, keys(b), dim);
    for (; b < n_blocks; ++b) score_tile<Cached, n, 1>(at(b), s_stride, tile_q, q_stride, keys(b), dim);
  });
}

// Columns [d, d + n_vecs * lanes) of y[i] += sum_j p[i, j] v[j]: one chain of additions a number, in the
// order of j.
template <class Cached, size_t n_q, size_t n_vecs>
inline void mix_tile(float* y, size_t y_stride, const float* p, size_t p_stride,
                     const typename Cached::Element* v, size_t n_k, size_t dim, size_t d) noexcept {
  constexpr size_t together = Cached::together;
  F32 sums[n_q][n_vecs];
  RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
    RUNNEL_UNROLL for (size_t c = 0; c < n_vecs; ++c) sums[i][c] = load(y + i * y_stride + d + c * lanes);
  }
  const auto add = [&](size_t j) {
    F32 v_j[n_vecs];
    RUNNEL_UNROLL for (size_t c = 0; c < n_vecs; ++c) v_j[c] = Cached::value(v, dim, j, d + c * lanes);
    RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
      const F32 p_j(p[i * p_stride + j]);
      RUNNEL_UNROLL for (size_t c = 0; c < n_vecs; ++c) sums[i][c] = fmadd(p_j, v_j[c], sums[i][c]);
    }
  };
  in_pieces<together>(n_k, add, [&](size_t j) {
    prefetch_lines(v + j * dim + d * together + values_ahead<Cached>(dim), together * n_vecs * lanes);
  });
  RUNNEL_UNROLL for (size_t i = 0; i < n_q; ++i) {
    RUNNEL_UNROLL for (size_t c = 0; c < n_vecs; ++c) store(y + i * y_stride + d + c * lanes, sums[i][c]);
  }
}

// The last n < lanes columns.
template <class Cached, size_t n_q>
inline void mix_tail(float* y, size_t y_stride, const float* p, size_t p_stride,
                     const typename Cached::Element* v, size_t n_k, size_t dim, size_t d) noexcept {
  F32 sums[n_q];
  for (size_t i = 0; i < n_q; ++i) sums[i] = load_n(y + i * y_stride + d, dim - d);
  for (size_t j = 0; j < n_k; ++j) {
    const F32 v_j = Cached::value_n(v, dim, j, d, dim - d);
    for (size_t i = 0; i < n_q; ++i) sums[i] = fmadd(F32(p[i * p_stride + j]), v_j, sums[i]);
  }
  for (size_t i = 0; i < n_q; ++i) store_n(y + i * y_stride + d, sums[i], dim - d);
}

// Columns from d on: as many as can be in tiles of n_vecs vectors, the others in narrower ones.
template <class Cached, size_t n_q, size_t n_vecs>
inline void mix_columns(float* y, size_t y_stride, const float* p, size_t p_stride,
                        const typename Cached::Element* v, size_t n_k, size_t dim, size_t d) noexcept {
  for (; d + n_vecs * lanes <= dim; d += n_vecs * lanes)
    mix_tile<Cached, n_q, n_vecs>(y, y_stride, p, p_stride, v, n_k, dim, d);
  if constexpr (n_vecs > 1) {
    mix_columns<Cached, n_q, n_vecs / 2>(y, y_stride, p, p_stride, v, n_k, dim, d);
  } else if (d < dim) {
    mix_tail<Cached, n_q>(y, y_stride, p, p_stride, v, n_k, dim, d);
  }
}

// Columns from d on.
template <class Cached>
inline void mix(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                const typename Cached::Element* v, size_t n_k, size_t dim, size_t d = 0) noexcept {
  const auto tile = [=](size_t first, auto n) {
    constexpr size_t n_vecs = n * 8 <= max_tile_sums ? 8 : n * 4 <= max_tile_sums ? 4 : 2;
    mix_columns<Cached, n, n_vecs>(y + first * y_stride, y_stride, p + first * p_stride, p_stride, v, n_k,
                                   dim, d);
  };
  if (n_q <= max_tile_queries)
    for_each_tile<in_order_queries>(n_q, tile);
  else
    for_each_tile<max_tile_queries>(n_q, tile);
}

}  // namespace
}  // namespace runnel::simd
