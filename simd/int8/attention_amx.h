// Attention over int8 keys and values with AMX. A line of cached bytes is a row of a tile as it lies: 64
// numbers of 16 keys, or 64 values of 16 columns, meet the high and the low bytes of 8 rows of factors in one
// instruction. The same bits as by FactorsOfBytes.
//
// Reckoning takes about as long as keys and values take to come, and a core has room for so few lines on
// their way that what comes next has to be prefetched all the while, a few lines at a time: half of it here,
// the other half by the caller during its softmax (tests/bench/experiments.md).
#pragma once
#include <algorithm>
#include <initializer_list>

#include "simd/int8/attention_dots.h"
#include "simd/int8/factors_of_bytes.h"
#include "simd/int8/tile_registers.h"

namespace runnel::simd {
namespace {

// Fewer rows of factors than this are not worth a tile.
constexpr size_t min_tile_factors = 4;

size_t unfetched_i8_amx(size_t n, size_t n_q) noexcept { return n_q < min_tile_factors ? 0 : n / 2; }

// What is read after a run, prefetched some lines at a time.
class Ahead {
 public:
  explicit Ahead(const std::int8_t* next) : next_(next) {}
  // Half of n lines.
  void fetch_half_of(size_t n) noexcept {
    prefetch_lines(next_, n / 2 * cached_line);
    next_ += n / 2 * cached_line;
  }

 private:
  const std::int8_t* next_;
};

// Factors whose bytes fill the rows of a tile: a query head's high and low ones.
struct TileFactors {
  static constexpr size_t max_rows = tile_rows / 2;

  // Row i of them; zeros up to a whole four, and further.
  void set(size_t i, const float* x, size_t n) noexcept {
    scales[i] = make_factors(x, n, [&](size_t j, I32 some) {
      narrow_to_bytes(bytes[2 * i] + j, high_bytes(some));
      narrow_to_bytes(bytes[2 * i + 1] + j, some);
    });
  }
  void set_all(const float* x, size_t stride, size_t n_rows, size_t n) noexcept {
    for (size_t i = 0; i < n_rows; ++i) set(i, x + i * stride, n);
    __asm__ volatile("" ::"r"(this) : "memory");  // GCC 12 does not see that tiles are loaded from memory
  }
  const std::int8_t* from(size_t step) const noexcept { return bytes[0] + step * dot_bytes; }

  alignas(64) std::int8_t bytes[tile_rows][max_factors];
  float scales[max_rows];
};

// Sums of high and low bytes in turns, 16 of each.
using SumsOfBytes = std::int32_t[tile_rows][block_keys];

inline F32 dots_of(const SumsOfBytes& sums, size_t i) noexcept {
  return to_float((load_i32(sums[2 * i]) << 8) + load_i32(sums[2 * i + 1]));
}

// tile(i, n) for rows [i, i + n) of n_rows.
template <class Tile>
inline void for_each_tile_of_factors(size_t n_rows, Tile tile) noexcept {
  for (size_t i = 0, n = 0; i < n_rows; i += n) tile(i, n = next_tile(n_rows - i, TileFactors::max_rows));
}

inline void store_scores(float* s, size_t s_stride, const SumsOfBytes& sums, const float* q_scales,
                         size_t n_q, F32 k_scale) noexcept {
  for (size_t i = 0; i < n_q; ++i) store(s + i * s_stride, dots_of(sums, i) * F32(q_scales[i]) * k_scale);
}

// Of up to max_rows queries. Tile registers: 0 sums, 2 and 4 to 6 whole tiles of keys and queries, 3 and 7
// what is left of them.
inline void score_tiles(float* s, size_t s_stride, const TileFactors& q, size_t n_q, const std::int8_t* k,
                        const float* k_scales, size_t n_blocks, size_t dim, Ahead* ahead) noexcept {
  const size_t n_steps = quant::divided_up(dim, dot_bytes);
  const size_t n_whole = (n_steps - 1) / tile_rows, n_last = n_steps - n_whole * tile_rows;
  TileShapes shapes;
  for (const size_t tile : std::initializer_list<size_t>{0, 4, 5, 6})
    shapes.set(tile, 2 * n_q, tile_row_bytes);
  shapes.set(2, tile_rows, tile_row_bytes);
  shapes.set(3, n_last, tile_row_bytes);
  shapes.set(7, 2 * n_q, n_last * dot_bytes);
  shapes.load();
  if (n_whole > 0) _tile_loadd(4, q.from(0), max_factors);
  if (n_whole > 1) _tile_loadd(5, q.from(tile_rows), max_factors);
  if (n_whole > 2) _tile_loadd(6, q.from(2 * tile_rows), max_factors);
  _tile_loadd(7, q.from(n_whole * tile_rows), max_factors);
  for (size_t b = 0; b < n_blocks; ++b) {
    const std::int8_t* const block = k + b * n_steps * tile_row_bytes;
    const auto line = [=](size_t step) { return block + step * tile_row_bytes; };
    if (ahead) ahead->fetch_half_of(n_steps);
    _tile_zero(0);
    if (n_whole > 0) {
      _tile_loadd(2, line(0), tile_row_bytes);
      _tile_dpbssd(0, 4, 2);
    }
    if (n_whole > 1) {
      _tile_loadd(2, line(tile_rows), tile_row_bytes);
      _tile_dpbssd(0, 5, 2);
    }
    if (n_whole > 2) {
      _tile_loadd(2, line(2 * tile_rows), tile_row_bytes);
      _tile_dpbssd(0, 6, 2);
    }
    _tile_loadd(3, line(n_whole * tile_rows), tile_row_bytes);
    _tile_dpbssd(0, 7, 3);
    alignas(64) SumsOfBytes sums;
    _tile_stored(0, sums, tile_row_bytes);
    store_scores(s + b * block_keys, s_stride, sums, q.scales, n_q, load(k_scales + b * block_keys));
  }
}

void scores_i8_amx(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                   const std::int8_t* k, const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  if (n_q < min_tile_factors || dim == 0 || dim > max_factors)
    return scores_i8_dots<FactorsOfBytes>(s, s_stride, q, q_stride, n_q, k, k_scales, n_blocks, dim);
  Ahead ahead(k + run_keys * quant::filled_up(dim, dot_bytes));
  TileFactors rows;
  for_each_tile_of_factors(n_q, [&](size_t i, size_t n) {
    rows.set_all(q + i * q_stride, q_stride, n, dim);
    score_tiles(s + i * s_stride, s_stride, rows, n, k, k_scales, n_blocks, dim, i == 0 ? &ahead : nullptr);
  });
}

// Columns of values that are summed at a time.
constexpr size_t mixed_tiles = 4;

// sums[t] = products of n_q rows of weights with n_tiles times 16 columns of values, n_chunks times n_steps
// of them from `first` on; or that much more. Tile registers: 0 to 3 sums, 6 weights, 7 values.
template <size_t n_tiles>
inline void mix_tiles(SumsOfBytes (&sums)[mixed_tiles], bool add, const TileFactors& p, size_t n_q,
                      const std::int8_t* v, size_t dim, size_t first, size_t n_chunks, size_t n_steps,
                      Ahead* ahead) noexcept {
  const size_t row = dim * dot_bytes;
  TileShapes shapes;
  for (size_t tile = 0; tile < n_tiles; ++tile) shapes.set(tile, 2 * n_q, tile_row_bytes);
  shapes.set(6, 2 * n_q, n_steps * dot_bytes);
  shapes.set(7, n_steps, tile_row_bytes);
  shapes.load();  // and clears them
  if (add) for_each_index<n_tiles>([&](auto i) { load_tile<i>(sums[i], tile_row_bytes); });
  const auto fetch = [=] {
    if (ahead) ahead->fetch_half_of(n_steps);
  };
  for (size_t c = 0; c < n_chunks; ++c) {
    const size_t step = first + c * n_steps;
    const std::int8_t* const values = v + step * row;
    _tile_loadd(6, p.from(step), max_factors);
    _tile_loadd(7, values, row);
    _tile_dpbssd(0, 6, 7);
    fetch();
    if constexpr (n_tiles > 1) {
      _tile_loadd(7, values + tile_row_bytes, row);
      _tile_dpbssd(1, 6, 7);
      fetch();
    }
    if constexpr (n_tiles > 2) {
      _tile_loadd(7, values + 2 * tile_row_bytes, row);
      _tile_dpbssd(2, 6, 7);
      fetch();
    }
    if constexpr (n_tiles > 3) {
      _tile_loadd(7, values + 3 * tile_row_bytes, row);
      _tile_dpbssd(3, 6, 7);
      fetch();
    }
  }
  for_each_index<n_tiles>([&](auto i) { store_tile<i>(sums[i], tile_row_bytes); });
}

// Of up to max_rows rows of weights over up to max_factors values: n_tiles times 16 columns.
template <size_t n_tiles>
inline void mix_columns_amx(float* y, size_t y_stride, const TileFactors& p, size_t n_q, const std::int8_t* v,
                            size_t n_k, size_t dim, Ahead* ahead) noexcept {
  const size_t n_steps = quant::divided_up(n_k, dot_bytes);
  const size_t n_whole = n_steps / tile_rows, n_last = n_steps % tile_rows;
  alignas(64) SumsOfBytes sums[mixed_tiles];
  if (n_whole > 0) mix_tiles<n_tiles>(sums, false, p, n_q, v, dim, 0, n_whole, tile_rows, ahead);
  if (n_last > 0)
    mix_tiles<n_tiles>(sums, n_whole > 0, p, n_q, v, dim, n_whole * tile_rows, 1, n_last, ahead);
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t t = 0; t < n_tiles; ++t) {
      float* const to = y + i * y_stride + t * block_keys;
      store(to, fmadd(dots_of(sums[t], i), F32(p.scales[i]), load(to)));
    }
  }
}

// Whole times 16 columns of up to max_factors values.
inline void mix_values(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,
                       const std::int8_t* v, size_t n_k, size_t dim) noexcept {
  const size_t n_tiles = dim / block_keys;
  Ahead ahead(v + run_keys * dim);
  TileFactors rows;
  for_each_tile_of_factors(n_q, [&](size_t i, size_t n) {
    rows.set_all(p + i * p_stride, p_stride, n, n_k);
    for (size_t t = 0; t < n_tiles; t += mixed_tiles) {
      with_constant<mixed_tiles>(std::min(mixed_tiles, n_tiles - t), [&](auto tiles) {
        mix_columns_amx<tiles>(y + i * y_stride + t * block_keys, y_stride, rows, n, v + t * tile_row_bytes,
                               n_k, dim, i == 0 ? &ahead : nullptr);
      });
    }
  });
}

void mix_i8_amx(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
                size_t n_k, size_t dim) noexcept {
  if (n_q < min_tile_factors) return mix_i8_dots<FactorsOfBytes>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
  for (size_t j = 0; j < n_k; j += max_factors)
    mix_values(y, y_stride, p + j, p_stride, n_q, v + j * dim, std::min(max_factors, n_k - j), dim);
  const size_t n_whole = dim / block_keys * block_keys;
  if (n_whole < dim) mix_dots<FactorsOfBytes>(y, y_stride, p, p_stride, n_q, v, n_k, dim, n_whole);
}

}  // namespace
}  // namespace runnel::simd
