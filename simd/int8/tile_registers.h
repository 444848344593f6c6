// The tile registers of AMX (Intel SDM volume 1, 18.3): eight of 16 rows of 64 bytes. Their numbers are
// written out where they are used, for GCC pastes them into names.
#pragma once
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

}  // namespace
}  // namespace runnel::simd
