// The int8 dot of AVX2: maddubs multiplies unsigned by signed bytes and adds pairs up in 16 bits. Unsigned
// are the magnitudes of the activations, and a weight changes its sign where its activation is negative: |x|
// <= 127 and |w| <= 128, so a pair is at most 32512, and nothing saturates. Inverting the bits of w makes -w
// - 1, for which the sums start at their base and what the magnitudes of the negative activations add up to
// (`split` in quant/activations.h). It is done because AMD's cores give byte-wise signs (vpsignb, vpabsb) to
// the units that multiply, of which there are two.
#pragma once
#include "simd/i16.h"
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

struct Dot {
  static constexpr size_t tile_panels = 2;
  static constexpr size_t tile_tokens = 3;    // their sums leave four registers
  static constexpr size_t decode_panels = 3;  // fastest so, and not prefetched (tests/bench/experiments.md)
  static constexpr size_t decode_ahead = 0;
  static constexpr Cache streams_few_to = Cache::l1;
  static constexpr bool reads_split = true;

  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
  static void block(const Block& block, Steps n_steps, Take take) noexcept {
    PairSums sums[n_tok][n_panels][panel_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) {
        RUNNEL_UNROLL
        for (size_t v = 0; v < panel_vecs; ++v) sums[t][p][v] = (PairSums)(I16)I32(block.offset(t));
      }
    }
    const std::int8_t* panels[n_panels];
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      panels[p] = block.panel(p);
      keep_address(panels[p]);
    }
    for_each_step(n_steps, [&](size_t step) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) block.fetch_ahead(p, step);
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const I16 magnitudes = four_of(block.magnitudes_from(t, step));
        const I16 signs = four_of(block.signs_from(t, step));
        RUNNEL_UNROLL
        for (size_t p = 0; p < n_panels; ++p) {
          RUNNEL_UNROLL
          for (size_t v = 0; v < panel_vecs; ++v) {
            const I16 w = _mm256_xor_si256(load_i32(panels[p] + weights_at(step, v)), signs);
            sums[t][p][v] = add_pairs(sums[t][p][v], _mm256_maddubs_epi16(magnitudes, w), broadcast_i16(1));
          }
        }
      }
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) {
        RUNNEL_UNROLL
        for (size_t v = 0; v < panel_vecs; ++v) take(t, p, v, on_base((I16)sums[t][p][v]));
      }
    }
  }
};

}  // namespace
}  // namespace runnel::simd
