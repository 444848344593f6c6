// AMX's tile instructions in plain C++ (Intel SDM volume 1, 18.3, and volume 2), to come before all else in
// simd/isa/amx.cpp: so that its kernels are checked on processors that have AVX-512 VNNI and no tiles.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace runnel::simd::amx_tiles {

struct Shapes {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
inline thread_local Shapes shapes;
inline thread_local std::uint8_t tiles[8][16][64];

// A processor raises an exception there.
inline void require(bool is_valid, const char* what) {
  if (is_valid) return;
  std::fprintf(stderr, "AMX: %s\n", what);
  std::abort();
}

inline void load_shapes(const void* from) {
  std::memcpy(&shapes, from, sizeof shapes);
  require(shapes.palette == 1, "palette");
  for (int tile = 0; tile < 16; ++tile) {
    require(shapes.rows[tile] <= 16 && shapes.row_bytes[tile] <= 64, "a tile beyond 16 rows of 64 bytes");
    require((shapes.rows[tile] == 0) == (shapes.row_bytes[tile] == 0), "half a tile's shape");
    require(tile < 8 || shapes.rows[tile] == 0, "more than 8 tiles");
  }
  std::memset(tiles, 0, sizeof tiles);
}

inline void release() { std::memset(&shapes, 0, sizeof shapes); }

inline void require_shape(int tile) { require(shapes.rows[tile] != 0, "a tile without a shape"); }

inline void zero(int tile) {
  require_shape(tile);
  std::memset(tiles[tile], 0, sizeof tiles[tile]);
}

inline void load(int tile, const void* from, std::size_t stride) {
  zero(tile);
  for (std::size_t r = 0; r < shapes.rows[tile]; ++r)
    std::memcpy(tiles[tile][r], static_cast<const std::uint8_t*>(from) + r * stride, shapes.row_bytes[tile]);
}

inline void store(int tile, void* to, std::size_t stride) {
  require_shape(tile);
  for (std::size_t r = 0; r < shapes.rows[tile]; ++r)
    std::memcpy(static_cast<std::uint8_t*>(to) + r * stride, tiles[tile][r], shapes.row_bytes[tile]);
}

inline void require_product(int sum, int a, int b) {
  for (const int tile : {sum, a, b}) require_shape(tile);
  require(sum != a && sum != b && a != b, "the same tile twice");
  require(shapes.rows[a] == shapes.rows[sum] && shapes.row_bytes[b] == shapes.row_bytes[sum] &&
              shapes.row_bytes[a] == 4 * shapes.rows[b],
          "shapes that do not fit");
}

// sum[m][n] += a[m][4 k + i] b[k][4 n + i], signed bytes
inline void dot(int sum, int a, int b) {
  require_product(sum, a, b);
  for (std::size_t m = 0; m < shapes.rows[sum]; ++m) {
    for (std::size_t n = 0; n < shapes.row_bytes[sum] / 4u; ++n) {
      std::int32_t total = 0;
      std::memcpy(&total, &tiles[sum][m][4 * n], sizeof total);
      for (std::size_t k = 0; k < shapes.rows[b]; ++k) {
        for (std::size_t i = 0; i < 4; ++i) {
          total += static_cast<std::int8_t>(tiles[a][m][4 * k + i]) *
                   static_cast<std::int8_t>(tiles[b][k][4 * n + i]);
        }
      }
      std::memcpy(&tiles[sum][m][4 * n], &total, sizeof total);
    }
  }
}

inline float bf16_at(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  const std::uint32_t wide = (bits & 0x7f80u) == 0 ? 0u : static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// sum[m][n] += a[m][2 k + i] b[k][2 n + i], bf16 into floats: those of i = 0 and of i = 1 apart, then both.
// Numbers below the normal ones count as zero (sums that become so, too, which is left out here).
inline void dot_bf16(int sum, int a, int b) {
  require_product(sum, a, b);
  for (std::size_t m = 0; m < shapes.rows[sum]; ++m) {
    for (std::size_t n = 0; n < shapes.row_bytes[sum] / 4u; ++n) {
      float parts[2] = {};
      for (std::size_t k = 0; k < shapes.rows[b]; ++k) {
        for (std::size_t i = 0; i < 2; ++i)
          parts[i] += bf16_at(&tiles[a][m][4 * k + 2 * i]) * bf16_at(&tiles[b][k][4 * n + 2 * i]);
      }
      float total = 0;
      std::memcpy(&total, &tiles[sum][m][4 * n], sizeof total);
      total += parts[0] + parts[1];
      std::memcpy(&tiles[sum][m][4 * n], &total, sizeof total);
    }
  }
}

}  // namespace runnel::simd::amx_tiles

#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_release
#undef _tile_stored
#undef _tile_zero
#define _tile_dpbf16ps(sum, a, b) runnel::simd::amx_tiles::dot_bf16(sum, a, b)
#define _tile_dpbssd(sum, a, b) runnel::simd::amx_tiles::dot(sum, a, b)
#define _tile_loadconfig(from) runnel::simd::amx_tiles::load_shapes(from)
#define _tile_loadd(tile, from, stride) runnel::simd::amx_tiles::load(tile, from, stride)
#define _tile_release() runnel::simd::amx_tiles::release()
#define _tile_stored(tile, to, stride) runnel::simd::amx_tiles::store(tile, to, stride)
#define _tile_zero(tile) runnel::simd::amx_tiles::zero(tile)
