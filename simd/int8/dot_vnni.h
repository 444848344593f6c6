// The int8 dot of AVX-512 VNNI and AVX-VNNI: one instruction multiplies 4 unsigned by 4 signed bytes in each
// lane and adds them up. Weights are made unsigned by adding 128; the sums start at their base minus 128
// times the sum of the activations' codes.
#pragma once
#include "simd/int8/bytes.h"
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

template <size_t panels, size_t tokens>
struct DotVnni {
  static constexpr size_t tile_panels = panels;
  static constexpr size_t tile_tokens = tokens;
  static constexpr size_t decode_panels = 2;  // with their scales four streams, as many as Zen 4 and 5 like
  static constexpr size_t decode_ahead = 0;   // it reads slower with it (tests/bench/experiments.md)
  static constexpr Cache streams_few_to = Cache::l1;
  static constexpr bool reads_split = false;

  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
  static void block(const Block& block, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    const I32 sign_bits(static_cast<std::int32_t>(0x80808080u));
    Bytes sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = I32(block.offset(t));
    }
    for_each_step(n_steps, [&](size_t step) {
      Bytes w[n_vecs];
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v)
        w[v] = load_i32(block.weights(v / panel_vecs, step, v % panel_vecs)) ^ sign_bits;
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const Bytes x = I32(block.inputs(t, step));
        RUNNEL_UNROLL
        for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = add_dots(sums[t][v], w[v], x);
      }
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) take(t, v / panel_vecs, v % panel_vecs, on_base(sums[t][v]));
    }
  }
};

// Intel's processors read weights faster in more streams, prefetched 2 KB ahead, and want what a few tokens
// prefetch in the L2 cache (tests/bench/experiments.md).
template <size_t panels, size_t tokens>
struct DotVnniIntel : DotVnni<panels, tokens> {
  static constexpr size_t decode_panels = 4;
  static constexpr size_t decode_ahead = 2048;
  static constexpr Cache streams_few_to = Cache::l2;
};

}  // namespace
}  // namespace runnel::simd
