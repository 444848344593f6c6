// Blocks of a tile of 16 tokens by AMX: one instruction multiplies 32 inputs of all of them with a panel's 16
// rows. The dots leave the tile registers through memory; from there on all is as on AVX-512. Fewer tokens
// are not worth a tile.
#pragma once
#include <utility>

#include "simd/int8/dot_vnni.h"
#include "simd/int8/tile_product.h"
#include "simd/int8/tile_registers.h"

namespace runnel::simd {
namespace {

// For fewer tokens than a tile has.
using DotFew = DotVnniIntel<2, 8>;

using DotsOfBlock = std::int32_t[tile_rows][panel_rows];  // tokens by rows

// Of a panel's rows for each token. GCC 12 keeps them in registers only if nothing that touches them is a
// loop, or a call when it comes to choose: whatever does is inlined before.
using TokenSums = F32[tile_rows];

// f(t) for each token of a tile.
template <class F, size_t... t>
[[gnu::always_inline]] inline void for_each_token(F f, std::index_sequence<t...>) noexcept {
  (f(t), ...);
}
template <class F>
[[gnu::always_inline]] inline void for_each_token(F f) noexcept {
  for_each_token(f, std::make_index_sequence<tile_rows>());
}

// The dots of a token on their base.
[[gnu::always_inline]] inline F32 dots_on_base(const DotsOfBlock& dots, size_t t) noexcept {
  return on_base(load_i32(dots[t]) + I32(quant::i8_base_bits));
}

// The outputs of a tile, to which its blocks are added one after the other; i: which of a group.
template <class Groups>
class Outputs;

template <>
class Outputs<NarrowGroups> {
 public:
  explicit Outputs(const Sums<1, tile_rows>& y) noexcept {
    for_each_token([&](size_t t) __attribute__((always_inline)) { sums_[t] = y[t][0][0]; });
  }
  void store(Sums<1, tile_rows>& y) const noexcept {
    for_each_token([&](size_t t) __attribute__((always_inline)) { y[t][0][0] = sums_[t]; });
  }
  template <size_t i>
  [[gnu::always_inline]] void add(const DotsOfBlock& dots, const Tile& tile, size_t b) noexcept {
    const F32 w_scale = tile.w_scale<NarrowGroups>(0, 0, b);
    for_each_token([&](size_t t) __attribute__((always_inline)) {
      const F32 in_floats = scaled(dots_on_base(dots, t), tile.x_scale(t, b), tile.x_base(t, b));
      sums_[t] = fmadd(in_floats, w_scale, sums_[t]);
    });
  }

 private:
  TokenSums sums_;
};

// Those of all groups lie in memory: with those of one there would be no register left.
template <>
class Outputs<WideGroups> {
 public:
  explicit Outputs(const Sums<1, tile_rows>& y) noexcept {
    for_each_token([&](size_t t) __attribute__((always_inline)) { simd::store(all_[t], y[t][0][0]); });
  }
  void store(Sums<1, tile_rows>& y) const noexcept {
    for_each_token([&](size_t t) __attribute__((always_inline)) { y[t][0][0] = load(all_[t]); });
  }
  template <size_t i>
  [[gnu::always_inline]] void add(const DotsOfBlock& dots, const Tile& tile, size_t b) noexcept {
    for_each_token([&](size_t t) __attribute__((always_inline)) {
      const F32 before = i == 0 ? tile.x_group_base(t, b) : of_group_[t];
      of_group_[t] = fmadd(dots_on_base(dots, t), tile.x_scale(t, b), before);
    });
    if constexpr (i + 1 == WideGroups::blocks) {
      const F32 w_scale = tile.w_scale<WideGroups>(0, 0, b / WideGroups::blocks);
      for_each_token([&](size_t t) __attribute__((always_inline)) {
        simd::store(all_[t], fmadd(of_group_[t], w_scale, load(all_[t])));
      });
    }
  }

 private:
  TokenSums of_group_;
  alignas(64) float all_[tile_rows][panel_rows];
};

struct DotAmx : DotFew {
  static constexpr size_t tile_panels = 1;
  static constexpr size_t tile_tokens = tile_rows;
  static constexpr size_t n_dots = 4;  // tile registers with those of a block

  // Tile registers: 0 to 3 dots, 4 and 6 inputs, 5 and 7 weights. Written as numbers, for GCC pastes them
  // into names.
  static void set(TileShapes& shapes) noexcept {
    for (size_t tile = 0; tile < n_dots; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
    for (size_t tile = n_dots; tile < 8; tile += 2) {
      shapes.set(tile, tile_rows, quant::i8_block);
      shapes.set(tile + 1, block_steps, quant::i8_step_bytes);
    }
    shapes.load();
  }

  // Register number i = the dots of block b. With each block one token's next outputs are prefetched, and for
  // few tokens some later weights: many at once would hold up the inputs.
  template <size_t i>
  static void multiply(const Tile& tile, size_t b, const NextOutputs& next) noexcept {
    const size_t t = b - tile.stretch.begin;
    if (t < tile_tokens) next.fetch<tile_panels>(t);
    const StreamedBlock<streams_few_to> block{tile.block(b)};
    if (block.ahead_step != 0) {
      for (size_t step = 0; step < block_steps; ++step) block.fetch_ahead(0, step);
    }
    if constexpr (i % 2 == 0) {
      _tile_loadd(4, block.x, quant::i8_block);
      _tile_loadd(5, block.w, quant::i8_step_bytes);
    } else {
      _tile_loadd(6, block.x, quant::i8_block);
      _tile_loadd(7, block.w, quant::i8_step_bytes);
    }
    zero_tile<i>();
    if constexpr (i == 0)
      _tile_dpbssd(0, 4, 5);
    else if constexpr (i == 1)
      _tile_dpbssd(1, 6, 7);
    else if constexpr (i == 2)
      _tile_dpbssd(2, 4, 5);
    else
      _tile_dpbssd(3, 6, 7);
  }

  // dots[i] = register number i.
  template <size_t i>
  static void store_dots(DotsOfBlock (&dots)[n_dots]) noexcept {
    store_tile<i>(dots[i], tile_row_bytes);
  }

  // Blocks follow each other through three stages, so that none waits for what comes before it: the product,
  // which takes 52 cycles; two blocks later its dots go to memory; one more, and they are added. A core looks
  // no further ahead than some four blocks. (tests/bench/experiments.md)
  template <class Groups, size_t n_panels, size_t n_tok>
  requires(n_panels == 1 && n_tok == tile_rows) static size_t
      add_groups(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept {
    alignas(64) DotsOfBlock dots[n_dots];
    size_t b = tile.stretch.begin;
    if (b + n_dots > tile.end_whole()) return b;
    Outputs<Groups> outputs(y);
    fetch_panels_ahead<n_panels, n_tok>(tile, b);
    multiply<0>(tile, b, next);
    multiply<1>(tile, b + 1, next);
    multiply<2>(tile, b + 2, next);
    store_dots<0>(dots);
    multiply<3>(tile, b + 3, next);
    store_dots<1>(dots);
    outputs.template add<0>(dots[0], tile, b);
    for (b += n_dots; b + n_dots <= tile.end_whole(); b += n_dots) {
      fetch_panels_ahead<n_panels, n_tok>(tile, b);
      multiply<0>(tile, b, next);
      store_dots<2>(dots);
      outputs.template add<1>(dots[1], tile, b - 3);
      multiply<1>(tile, b + 1, next);
      store_dots<3>(dots);
      outputs.template add<2>(dots[2], tile, b - 2);
      multiply<2>(tile, b + 2, next);
      store_dots<0>(dots);
      outputs.template add<3>(dots[3], tile, b - 1);
      multiply<3>(tile, b + 3, next);
      store_dots<1>(dots);
      outputs.template add<0>(dots[0], tile, b);
    }
    for (size_t t = b - tile.stretch.begin; t < n_tok; ++t) next.fetch<n_panels>(t);
    store_dots<2>(dots);
    outputs.template add<1>(dots[1], tile, b - 3);
    store_dots<3>(dots);
    outputs.template add<2>(dots[2], tile, b - 2);
    outputs.template add<3>(dots[3], tile, b - 1);
    outputs.store(y);
    return b;
  }
};

}  // namespace
}  // namespace runnel::simd
