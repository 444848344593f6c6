// The int8 dot of AVX-512 VNNI for processors that make weights unsigned in the units they multiply with, as
// Intel's do all arithmetic on vectors of 64 bytes: activations are unsigned, raised by 128
// (quant/activations.h), and weights stay as they are. Sums start at their base minus 128 times the sum of a
// block's weights, which is added up once for all tokens. block() is DotVnni's but for that: one piece of
// code for both is slower (tests/bench/experiments.md).
#pragma once
#include <type_traits>

#include "simd/int8/dot_vnni.h"
#include "simd/int8/tile_product.h"

namespace runnel::simd {
namespace {

template <size_t panels, size_t tokens>
struct DotRaised : DotVnni<panels, tokens> {
  static constexpr CacheUse cache_use = {.pass_bytes = 576 * 1024};  // of 1 MB and more, 2 MB since 2023

  // after(step) once the products of a step are under way.
  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take, class After>
  static void block_and(const Block& block, Steps n_steps, Take take, After after) noexcept {
    Bytes sums[n_tok][n_panels][panel_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) {
        RUNNEL_UNROLL
        for (size_t v = 0; v < panel_vecs; ++v) sums[t][p][v] = block.start(p, v);
      }
    }
    for_each_step(n_steps, [&](size_t step) {
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const Bytes x = I32(block.inputs(t, step));
        RUNNEL_UNROLL
        for (size_t p = 0; p < n_panels; ++p) {
          RUNNEL_UNROLL
          for (size_t v = 0; v < panel_vecs; ++v)
            sums[t][p][v] = add_dots(sums[t][p][v], x, load_i32(block.weights(p, step, v)));
        }
      }
      after(step);
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) {
        RUNNEL_UNROLL
        for (size_t v = 0; v < panel_vecs; ++v) take(t, p, v, on_base(sums[t][p][v]));
      }
    }
  }
  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
  static void block(const Block& block, Steps n_steps, Take take) noexcept {
    block_and<n_panels, n_tok>(block, n_steps, take, [](size_t) {});
  }

  // Each step of a group's first block ends the group before for one token: the outputs are in memory, and as
  // many stores at once as all of them take would fill the core's queue and keep the products that follow out
  // (tests/bench/experiments.md).
  template <class Groups, size_t n_panels, size_t n_tok>
  requires(std::is_same_v<Groups, WideGroups>&& n_tok == tokens) static size_t
      add_groups(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept {
    static_assert(n_tok == block_steps);
    constexpr size_t n_blocks = Groups::blocks;
    const size_t begin = tile.stretch.begin;
    const size_t end = begin + (tile.end_whole() - begin) / n_blocks * n_blocks;
    if (begin == end) return begin;
    Sums<n_panels, n_tok> part;
    const auto add = [&](size_t b, auto after) {
      const auto take = [&](size_t t, size_t p, size_t v, F32 dots) {
        part[t][p][v] = fmadd(dots, tile.x_scale(t, b), part[t][p][v]);
      };
      block_and<n_panels, n_tok>(tile.template block_for<DotRaised>(b), WholeBlock(), take, after);
    };
    const auto end_group = [&](size_t t, size_t group) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) {
        RUNNEL_UNROLL
        for (size_t v = 0; v < panel_vecs; ++v)
          y[t][p][v] = fmadd(part[t][p][v], tile.template w_scale<Groups>(p, v, group), y[t][p][v]);
      }
    };
    fill<n_panels, n_tok>(part, [&](size_t t) { return tile.x_group_base(t, begin); });
    fetch_ahead<n_panels, n_tok>(tile, next, begin);
    add(begin, [](size_t) {});
    for (size_t b = begin;;) {
      for (size_t i = 1; i < n_blocks; ++i) add(b + i, [](size_t) {});
      b += n_blocks;
      if (b == end) break;
      fetch_ahead<n_panels, n_tok>(tile, next, b);
      add(b, [&](size_t t) {
        end_group(t, b / n_blocks - 1);
        fill_token<n_panels>(part[t], tile.x_group_base(t, b));
        end_of_step();
      });
    }
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) end_group(t, end / n_blocks - 1);
    return end;
  }

  template <class Steps>
  static I32 start(const std::int8_t* w, size_t v, Steps n_steps) noexcept {
    const Bytes raised = I32(static_cast<std::int32_t>(0x80808080u));
    Bytes sum = no_sums();
    for_each_step(n_steps,
                  [&](size_t step) { sum = add_dots(sum, raised, load_i32(w + weights_at(step, v))); });
    return I32(quant::i8_base_bits) - I32(sum);
  }
};

}  // namespace
}  // namespace runnel::simd
