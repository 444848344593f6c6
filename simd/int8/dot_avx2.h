// The int8 dot of AVX2: maddubs multiplies unsigned by signed bytes and adds pairs up in 16 bits. Unsigned
// are the magnitudes of the activations, and a weight changes its sign where its activation is negative: |x|
// <= 127 and |w| <= 128, so a pair is at most 32512, and nothing saturates. Inverting the bits of w makes -w
// - 1, for which the sums start at what the magnitudes of the negative activations add up to. It is done
// because AMD's cores give byte-wise signs (vpsignb, vpabsb) to the units that multiply, of which there are
// two.
#pragma once
#include "simd/int8/tile.h"
#include "simd/words.h"

namespace runnel::simd {
namespace {

// The inputs of a block as they are multiplied.
template <size_t n_tok>
class SplitInputs {
 public:
  explicit SplitInputs(const BlockI8& block) noexcept {
    const __m256i zeros = _mm256_setzero_si256();
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      const __m256i x = load_i32(block.inputs_from(t, 0));
      const __m256i opposite = _mm256_sub_epi8(zeros, x);
      store(signs_[t], _mm256_cmpgt_epi8(zeros, x));
      store(magnitudes_[t], _mm256_min_epu8(x, opposite));
      start_[t] = sum_of(_mm256_max_epi8(opposite, zeros));
    }
  }
  // For a compiler that would read them once for all tokens, and have no registers for so many.
  void read_anew() noexcept { __asm__("" : "+m"(*this)); }

  // In every lane.
  __m256i start(size_t t) const noexcept { return start_[t]; }
  // Four inputs, in every lane.
  __m256i signs(size_t t, size_t step) const noexcept {
    return four_of(signs_[t] + step * quant::i8_step_cols);
  }
  __m256i magnitudes(size_t t, size_t step) const noexcept {
    return four_of(magnitudes_[t] + step * quant::i8_step_cols);
  }

 private:
  using Bytes = std::int8_t[quant::i8_block];
  static_assert(sizeof(Bytes) == sizeof(__m256i));

  static void store(Bytes& to, __m256i x) noexcept { _mm256_store_si256(reinterpret_cast<__m256i*>(to), x); }
  // Of unsigned bytes, in every lane.
  static __m256i sum_of(__m256i bytes) noexcept {
    const __m256i four = _mm256_sad_epu8(bytes, _mm256_setzero_si256());  // of eight bytes each
    const __m128i two = _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return _mm256_broadcastd_epi32(_mm_add_epi32(two, _mm_unpackhi_epi64(two, two)));
  }

  alignas(32) Bytes signs_[n_tok];  // -1: negative, 0: not
  alignas(32) Bytes magnitudes_[n_tok];
  __m256i start_[n_tok];
};

struct Dot {
  static constexpr size_t tile_panels = 2;
  static constexpr size_t tile_tokens = 8;
  static constexpr size_t decode_panels = 2;
  static constexpr size_t decode_ahead = 0;  // it reads slower when asked (tests/bench/experiments.md)
  static constexpr Cache streams_few_to = Cache::l1;

  template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
  static void block(const Block& block, Steps n_steps, Take take) noexcept {
    SplitInputs<n_tok> inputs(block);
    for (size_t t = 0; t + most_tokens <= n_tok; t += most_tokens)
      multiply<n_panels, most_tokens>(block, inputs, t, n_steps, take);
    constexpr size_t n_left = n_tok % most_tokens;
    if constexpr (n_left != 0) multiply<n_panels, n_left>(block, inputs, n_tok - n_left, n_steps, take);
  }

 private:
  // At a time: their sums with two panels fill half of the registers.
  static constexpr size_t most_tokens = 2;

  // Tokens [first, first + n_tok) of the inputs.
  template <size_t n_panels, size_t n_tok, class Block, class Inputs, class Steps, class Take>
  static void multiply(const Block& block, Inputs& inputs, size_t first, Steps n_steps, Take take) noexcept {
    constexpr size_t n_vecs = n_panels * panel_vecs;
    const __m256i ones = _mm256_set1_epi16(1);
    inputs.read_anew();
    __m256i sums[n_tok][n_vecs];
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v) sums[t][v] = inputs.start(first + t);
    }
    for_each_step(n_steps, [&](size_t step) {
      RUNNEL_UNROLL
      for (size_t t = 0; t < n_tok; ++t) {
        const __m256i signs = inputs.signs(first + t, step);
        const __m256i magnitudes = inputs.magnitudes(first + t, step);
        RUNNEL_UNROLL
        for (size_t v = 0; v < n_vecs; ++v) {
          const __m256i w = load_i32(block.weights(v / panel_vecs, step, v % panel_vecs));
          const __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_xor_si256(w, signs));
          sums[t][v] = _mm256_add_epi32(sums[t][v], _mm256_madd_epi16(pairs, ones));
          added_up(sums[t][v]);
        }
      }
    });
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < n_vecs; ++v)
        take(first + t, v / panel_vecs, v % panel_vecs, to_float(sums[t][v]));
    }
  }
};

}  // namespace
}  // namespace runnel::simd
