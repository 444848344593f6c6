// What a tile of the int8 product is made of: the interface between tile_product.h and the Dot of each
// instruction set.
#pragma once
#include <type_traits>

#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

constexpr size_t block_steps = quant::i8_block / quant::i8_step_cols;
constexpr size_t block_bytes = block_steps * quant::i8_step_bytes;  // of one panel

// Columns go through a matrix in stretches of at most so many blocks, unless there are few tokens, and tokens
// in passes of at most so many bytes: what all panels read stays in a part of the L2 cache beside the panels
// of a tile, and the weights come from memory once a pass.
struct CacheUse {
  size_t stretch_blocks = 96;
  size_t pass_bytes = 288 * 1024;
};

// Where vector v of a step's weights is in a block of a panel.
constexpr size_t weights_at(size_t step, size_t v) noexcept {
  return step * quant::i8_step_bytes + v * lanes * quant::i8_step_cols;
}

// One block of up to 32 inputs of a tile.
struct BlockI8 {
  const std::int8_t* w;  // [n_steps][16][4], panels w_stride apart
  size_t w_stride;
  const std::int8_t* x;         // [n_tok][32], or split: [n_tok][2][32]; zeros where there is no weight
  const std::int32_t* offsets;  // [n_tok]
  // What a StreamedBlock prefetches of the panels that come next: so many bytes a step.
  const std::int8_t* ahead = nullptr;
  size_t ahead_step = 0;
  // Where the sums of the panels' rows start, in a Dot that finds it from the weights.
  const std::int32_t* starts = nullptr;

  const std::int8_t* panel(size_t p) const noexcept { return w + p * w_stride; }
  const std::int8_t* weights(size_t p, size_t step, size_t v) const noexcept {
    return panel(p) + weights_at(step, v);
  }
  void fetch_ahead(size_t /*p*/, size_t /*step*/) const noexcept {}
  // The inputs of a token from a step on.
  const std::int8_t* inputs_from(size_t t, size_t step) const noexcept {
    return x + t * quant::i8_block + step * quant::i8_step_cols;
  }
  // The four inputs of a step as one number.
  std::int32_t inputs(size_t t, size_t step) const noexcept { return four_at(inputs_from(t, step)); }
  // The same of split ones.
  const std::int8_t* magnitudes_from(size_t t, size_t step) const noexcept {
    return x + t * quant::i8_split + step * quant::i8_step_cols;
  }
  const std::int8_t* signs_from(size_t t, size_t step) const noexcept {
    return magnitudes_from(t, step) + quant::i8_block;
  }
  std::int32_t offset(size_t t) const noexcept { return offsets[t]; }
  I32 start(size_t p, size_t v) const noexcept {
    return load_i32(starts + p * CacheUse().stretch_blocks * panel_rows + v * lanes);
  }
};

// Where later weights are prefetched to.
enum class Cache { none, l1, l2 };

// One whose steps prefetch later weights, a line each: many at once would wait for each other.
template <Cache to>
struct StreamedBlock : BlockI8 {
  const std::int8_t* weights(size_t p, size_t step, size_t v) const noexcept {
    if (v == 0) fetch_ahead(p, step);
    return BlockI8::weights(p, step, v);
  }
  void fetch_ahead(size_t p, size_t step) const noexcept {
    const std::int8_t* const line = ahead + p * w_stride + step * ahead_step;
    if constexpr (to == Cache::l1)
      prefetch(line, 0);
    else
      prefetch_l2(line);
  }
};

// As it is: else GCC 12 adds up anew for each step what it is the sum of, in more registers than there are.
inline void keep_address(const std::int8_t*& p) noexcept { __asm__("" : "+r"(p)); }

// GCC moves nothing across. On ARM it orders instructions before it allocates registers, and would read so
// many weights ahead that no registers are left for the sums.
inline void end_of_step() noexcept { __asm__ volatile(""); }

// The number of steps of a block: known to the compiler for all but the last block of a row.
using WholeBlock = std::integral_constant<size_t, block_steps>;
template <class F>
inline void for_each_step(WholeBlock, F f) noexcept {
  RUNNEL_UNROLL
  for (size_t step = 0; step < block_steps; ++step) f(step);
}
template <class F>
inline void for_each_step(size_t n_steps, F f) noexcept {
  for (size_t step = 0; step < n_steps; ++step) f(step);
}

// several(step) for every n steps, one(step) for each of those that are left.
template <size_t n, class Several, class One>
inline void for_each_few(WholeBlock, Several several, One) noexcept {
  static_assert(block_steps % n == 0);
  RUNNEL_UNROLL
  for (size_t step = 0; step < block_steps; step += n) several(step);
}
template <size_t n, class Several, class One>
inline void for_each_few(size_t n_steps, Several several, One one) noexcept {
  size_t step = 0;
  for (; step + n <= n_steps; step += n) several(step);
  for (; step < n_steps; ++step) one(step);
}

}  // namespace
}  // namespace runnel::simd
