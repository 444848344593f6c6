// AMX: one instruction multiplies a block of 32 inputs of 16 tokens with that of a panel's 16 rows. Its sums
// leave the tile registers through memory; from there on all is as on AVX-512. Fewer tokens than a tile has
// are not worth one.
#include <cstring>
#include <type_traits>

#include "simd/int8/attention_amx.h"
#include "simd/int8/dot_vnni.h"
#include "simd/int8/matmul.h"
#include "simd/int8/tile_registers.h"

namespace runnel::simd {
namespace {

// For fewer tokens than a tile has. These processors read weights faster from more places, asked a page
// ahead.
struct DotFew : DotVnni<2, 8> {
  static constexpr size_t decode_panels = 4;
  static constexpr size_t decode_ahead = 4096;
  static constexpr Cache streams_few_to = Cache::none;
};

struct DotAmx : DotFew {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = tile_rows;

  using Dots = std::int32_t[tile_rows][panel_rows];  // of a block: tokens by rows

  // Tile registers: 0 to 3 sums, 4 and 6 inputs, 5 and 7 weights. Written as numbers, for GCC pastes them
  // into names.
  static void set(TileShapes& shapes) noexcept {
    for (size_t tile = 0; tile < 4; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
    for (size_t tile = 4; tile < 8; tile += 2) {
      shapes.set(tile, tile_rows, quant::i8_block);
      shapes.set(tile + 1, block_steps, quant::i8_step_bytes);
    }
    shapes.load();
  }

  // Four at a time, so that each product and each way through memory need not wait for the one before it.
  static void multiply_four(Dots (&dots)[4], const Tile& tile, size_t b) noexcept {
    const BlockI8 blocks[] = {tile.block(b), tile.block(b + 1), tile.block(b + 2), tile.block(b + 3)};
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, blocks[0].x, quant::i8_block);
    _tile_loadd(5, blocks[0].w, quant::i8_step_bytes);
    _tile_dpbssd(0, 4, 5);
    _tile_loadd(6, blocks[1].x, quant::i8_block);
    _tile_loadd(7, blocks[1].w, quant::i8_step_bytes);
    _tile_dpbssd(1, 6, 7);
    _tile_loadd(4, blocks[2].x, quant::i8_block);
    _tile_loadd(5, blocks[2].w, quant::i8_step_bytes);
    _tile_dpbssd(2, 4, 5);
    _tile_loadd(6, blocks[3].x, quant::i8_block);
    _tile_loadd(7, blocks[3].w, quant::i8_step_bytes);
    _tile_dpbssd(3, 6, 7);
    _tile_stored(0, dots[0], tile_row_bytes);
    _tile_stored(1, dots[1], tile_row_bytes);
    _tile_stored(2, dots[2], tile_row_bytes);
    _tile_stored(3, dots[3], tile_row_bytes);
  }

  // Not a loop, in which the sums would go through memory.
  template <class F>
  static void for_each_of_four(F f) noexcept {
    f(0);
    f(1);
    f(2);
    f(3);
  }

  // sums += the dots of a block, each token's times its scale.
  template <class Scale>
  static void add_dots(Sums<1, tile_rows>& sums, const Dots& dots, Scale scale) noexcept {
    RUNNEL_UNROLL
    for (size_t t = 0; t < tile_rows; ++t)
      sums[t][0][0] = fmadd(to_float(load_i32(dots[t])), scale(t), sums[t][0][0]);
  }

  template <class Groups, size_t n_panels, size_t n_tok>
  requires(n_panels == 1 && n_tok == tile_rows) static size_t
      add_groups(Sums<n_panels, n_tok>& y, const Tile& tile) noexcept {
    alignas(64) Dots dots[4];
    size_t b = tile.stretch.begin;
    for (; b + 4 <= tile.end_whole(); b += 4) {
      fetch_panels_ahead<n_panels, n_tok>(tile, b);
      multiply_four(dots, tile, b);
      if constexpr (std::is_same_v<Groups, WideGroups>) {
        Sums<n_panels, n_tok> part;
        clear<n_panels, n_tok>(part);
        for_each_of_four(
            [&](size_t i) { add_dots(part, dots[i], [&](size_t t) { return tile.x_scale(t, b + i); }); });
        const F32 w_scale = tile.w_scale<WideGroups>(0, 0, b / WideGroups::blocks);
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) y[t][0][0] = fmadd(part[t][0][0], w_scale, y[t][0][0]);
      } else {
        for_each_of_four([&](size_t i) {
          const F32 w_scale = tile.w_scale<NarrowGroups>(0, 0, b + i);
          add_dots(y, dots[i], [&](size_t t) { return tile.x_scale(t, b + i) * w_scale; });
        });
      }
    }
    return b;
  }
};

// From so many tokens on what the caller reads next is asked for. Fewer tokens are multiplied sooner than it
// comes, and what lies in the L2 cache waits behind it (tests/bench/experiments.md).
// Without it, two tiles ask for panels that may well be in the L2 cache, which costs nothing.
constexpr size_t next_from = 40;

void matmul_i8_amx(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                   const quant::PanelsI8& w, const void* next) noexcept {
  if (n_tok < next_from) next = nullptr;
  if (n_tok < tile_rows) return matmul_i8<DotFew>(y, y_stride, x, n_tok, w, next);
  TileShapes shapes;
  DotAmx::set(shapes);
  matmul_i8<DotAmx>(y, y_stride, x, n_tok, w, next);
}

// Whole tiles: 16 rows by 64 inputs by 16 rows.
std::uint64_t peak_i8_amx(size_t n) noexcept {
  TileShapes shapes;
  for (size_t tile = 0; tile < 6; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
  shapes.load();
  alignas(64) std::int8_t ones[tile_rows][tile_row_bytes];
  std::memset(ones, 1, sizeof ones);
  __asm__ volatile("" ::"r"(ones) : "memory");
  _tile_loadd(4, ones, tile_row_bytes);
  _tile_loadd(5, ones, tile_row_bytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t i = 0; i < n; ++i) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  alignas(64) std::int32_t counts[4][tile_rows][panel_rows];
  _tile_stored(0, counts[0], tile_row_bytes);
  _tile_stored(1, counts[1], tile_row_bytes);
  _tile_stored(2, counts[2], tile_row_bytes);
  _tile_stored(3, counts[3], tile_row_bytes);
  std::uint64_t total = 0;
  for (const auto& tile : counts) {
    for (const auto& row : tile) {
      for (const std::int32_t count : row) total += static_cast<std::uint64_t>(count);
    }
  }
  return total;
}

}  // namespace

extern const Kernels kernels_amx;
const Kernels kernels_amx{.peak_i8 = peak_i8_amx,
                          .matmul_i8 = matmul_i8_amx,
                          .scores_i8 = scores_i8_amx,
                          .mix_i8 = mix_i8_amx,
                          .unasked_i8 = unasked_i8_amx};

}  // namespace runnel::simd
