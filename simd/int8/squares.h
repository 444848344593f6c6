// Codes of Q8_0 rows, four inputs after four: row after row they come in, and leave step after step.
#pragma once
#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

using quant::BlockQ8_0;

// The codes of four inputs are moved as one word. A square has so many rows and words, and a vector one row
// of it, or those of two squares: a block has eight words.
constexpr size_t square_side = lanes < block_steps ? lanes : block_steps;
constexpr size_t second_square = lanes == square_side ? 0 : square_side;  // so many rows on

// Words [step, step + square_side) of `lanes` blocks, block_of(row): a vector for each. fetch(block) is
// called for each block, to ask for what comes later: of so many rows at once the processor does not see by
// itself which lines come next.
template <class BlockOf, class Fetch>
inline void load_square(F32 (&square)[square_side], size_t step, BlockOf block_of, Fetch fetch) noexcept {
  RUNNEL_UNROLL for (size_t r = 0; r < square_side; ++r) {
    const BlockQ8_0* const first = block_of(r);
    const BlockQ8_0* const second = block_of(r + second_square);
    square[r] = load_words(first->qs + step * quant::i8_step_cols, second->qs + step * quant::i8_step_cols);
    fetch(first);
    if (second != first) fetch(second);
  }
  transpose(square);
}

}  // namespace
}  // namespace runnel::simd
