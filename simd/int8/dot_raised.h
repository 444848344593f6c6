// The int8 dot of AVX-512 VNNI for processors that make weights unsigned in the units they multiply with, as
// Intel's do all arithmetic on vectors of 64 bytes: activations are unsigned, raised by 128
// (quant/activations.h), and weights stay as they are. Sums start at their base minus 128 times the sum of a
// block's weights, which is added up once for all tokens. block() is DotVnni's but for that: one piece of
// code for both is slower (tests/bench/experiments.md).
#pragma once
#include "simd/int8/dot_vnni.h"
#include "simd/int8/tile_product.h"

namespace runnel::simd {
namespace {

template <size_t panels, size_t tokens>
struct DotRaised : DotVnni<panels, tokens> {
  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
  static void block(const Block& block, Steps n_steps, Take take) noexcept {
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
