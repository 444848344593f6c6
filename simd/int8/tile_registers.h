// The tile registers of AMX (Intel SDM volume 1, 18.3): eight of 16 rows of 64 bytes. Their numbers are
// written out where they are used, for GCC pastes them into names.
#pragma once
#include <type_traits>
#include <utility>

#include "simd/vec.h"

namespace runnel::simd {
namespace {

constexpr size_t tile_rows = 16;
constexpr size_t tile_row_bytes = 64;

// Rows and bytes a row of the tile registers that are used, until the end of its scope. A class, for there is
// nothing to be left configured for whoever runs next on this thread.
class TileShapes {
 public:
  void set(size_t tile, size_t n_rows, size_t row_bytes) noexcept {
    config_.rows[tile] = static_cast<std::uint8_t>(n_rows);
    config_.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
  void load() noexcept {
    __asm__ volatile("" ::"r"(&config_) : "memory");  // GCC 12 takes the next line for a read of 8 bytes
    _tile_loadconfig(&config_);
  }
  TileShapes() = default;
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes() { _tile_release(); }

 private:
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config_;
  static_assert(sizeof config_ == 64);
};

// f(i) for i < n as constants.
template <size_t n, class F>
[[gnu::always_inline]] inline void for_each_index(F f) noexcept {
  [&]<size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    (f(std::integral_constant<size_t, i>()), ...);
  }
  (std::make_index_sequence<n>());
}

// What was stored is in memory before a tile is loaded from there: GCC 12 does not know that loading reads
// it.
inline void finish_stores() noexcept { __asm__ volatile("" ::: "memory"); }

// The instructions with the tile's number as a template's.
template <size_t tile>
[[gnu::always_inline]] inline void zero_tile() noexcept {
  static_assert(tile < 6);
  if constexpr (tile == 0) _tile_zero(0);
  if constexpr (tile == 1) _tile_zero(1);
  if constexpr (tile == 2) _tile_zero(2);
  if constexpr (tile == 3) _tile_zero(3);
  if constexpr (tile == 4) _tile_zero(4);
  if constexpr (tile == 5) _tile_zero(5);
}
template <size_t tile>
[[gnu::always_inline]] inline void load_tile(const void* from, size_t stride) noexcept {
  static_assert(tile < 8);
  if constexpr (tile == 0) _tile_loadd(0, from, stride);
  if constexpr (tile == 1) _tile_loadd(1, from, stride);
  if constexpr (tile == 2) _tile_loadd(2, from, stride);
  if constexpr (tile == 3) _tile_loadd(3, from, stride);
  if constexpr (tile == 4) _tile_loadd(4, from, stride);
  if constexpr (tile == 5) _tile_loadd(5, from, stride);
  if constexpr (tile == 6) _tile_loadd(6, from, stride);
  if constexpr (tile == 7) _tile_loadd(7, from, stride);
}
template <size_t tile>
[[gnu::always_inline]] inline void store_tile(void* to, size_t stride) noexcept {
  static_assert(tile < 6);
  if constexpr (tile == 0) _tile_stored(0, to, stride);
  if constexpr (tile == 1) _tile_stored(1, to, stride);
  if constexpr (tile == 2) _tile_stored(2, to, stride);
  if constexpr (tile == 3) _tile_stored(3, to, stride);
  if constexpr (tile == 4) _tile_stored(4, to, stride);
  if constexpr (tile == 5) _tile_stored(5, to, stride);
}
// tile `sum` += tile 7 times tile 6
template <size_t sum>
[[gnu::always_inline]] inline void add_products_bf16() noexcept {
  static_assert(sum < 6);
  if constexpr (sum == 0) _tile_dpbf16ps(0, 7, 6);
  if constexpr (sum == 1) _tile_dpbf16ps(1, 7, 6);
  if constexpr (sum == 2) _tile_dpbf16ps(2, 7, 6);
  if constexpr (sum == 3) _tile_dpbf16ps(3, 7, 6);
  if constexpr (sum == 4) _tile_dpbf16ps(4, 7, 6);
  if constexpr (sum == 5) _tile_dpbf16ps(5, 7, 6);
}

}  // namespace
}  // namespace runnel::simd
