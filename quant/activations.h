// Activations as integers, int8 for products with I8 weights (i8.h), int16 for those with I16 (i16.h):
// quantised by a kernel (simd/kernels.h) as the products read them. int8 codes are always within +-127.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/always_inline.h"
#include "quant/round_up.h"

namespace runnel::quant {

// Activations that share a scale. More would cost the kernels less: 64 have 16 to 20 % more KL divergence
// from float, 128 have 24 to 46 % (the models of README.md).
constexpr std::size_t i8_block = 32;

// An outlier: an activation far above the rest of its row, taken out of the int8 row and carried as it is.
struct CarriedEntry {
  std::uint32_t index;
  float value;
};

// An activation is carried if it is more than so many times the lower median of the maxima of its row's
// blocks: fewer cost more precision, more cost time (README.md has both).
constexpr float i8_carry_ratio = 2.5f;

// Bytes of a block that is split.
constexpr std::size_t i8_split = 2 * i8_block;

// A block whose numbers are all below has scale 0, so that the inverse of a scale is finite. Numbers from
// i8_beyond on count as infinities, so that scales times i8_base are finite.
constexpr float i8_least_max = 0x1p-100f;
constexpr float i8_beyond = 0x1p+100f;

// Sums of int8 products become floats for nothing: they begin as the bits of 1.5 2^23, where floats are 1
// apart, and with |sum| <= 32 * 128 * 127 < 2^22 they end as those of 1.5 2^23 + sum.
constexpr float i8_base = 0x1.8p+23f;
constexpr auto i8_base_bits = std::bit_cast<std::int32_t>(i8_base);

// A scale of int8 activations: of so few bits that i8_base times it is exact. That is 3 2^22.
RUNNEL_ALWAYS_INLINE float i8_scale(float quotient) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(quotient) & ~std::uint32_t{3});
}

// Blocks whose sums are added up before they meet the scale of a group of 128 weights (i8.h).
constexpr std::size_t i8_group_blocks = 4;

RUNNEL_ALWAYS_INLINE std::size_t i8_blocks(std::size_t n_cols) noexcept {
  return divided_up(n_cols, i8_block);
}
RUNNEL_ALWAYS_INLINE std::size_t i8_padded(std::size_t n_cols) noexcept {
  return filled_up(n_cols, i8_block);
}
RUNNEL_ALWAYS_INLINE std::size_t i8_max_carried(std::size_t n_cols) noexcept {
  return n_cols / 256 > 4 ? n_cols / 256 : 4;
}

// Tokens that lie together, whole tiles of every instruction set (of 2, 3, 4, 6, 8 or 16 tokens), and how
// many of n_tok tokens there is room for when they do: the last chunk may be shorter in use, not in size.
constexpr std::size_t i8_chunk = 48;
RUNNEL_ALWAYS_INLINE std::size_t i8_width(std::size_t n_tok) noexcept {
  return n_tok < i8_chunk ? n_tok : i8_chunk;
}
RUNNEL_ALWAYS_INLINE std::size_t i8_room(std::size_t n_tok) noexcept {
  return n_tok < i8_chunk ? n_tok : filled_up(n_tok, i8_chunk);
}
// Products go on by a tile, mostly in the same chunk: then nothing is divided.
RUNNEL_ALWAYS_INLINE std::size_t chunk_of(std::size_t token, std::size_t width) noexcept {
  return token < width ? 0 : token / width;
}

// Activations x[t, c] = code * scale, but for the carried entries, whose code is 0. Tokens lie in chunks of
// `width`, i8_width() of all the tokens there are; inside a chunk the same block of all tokens lies together:
// what a tile of the product reads of a block is one piece.
//
//   codes    int8 [n_chunks][n_blocks][width][32]   zeros from n_cols on; raised: code + 128, unsigned
//   scales   f32  [n_chunks][n_blocks][width]
//   offsets  i32  [n_chunks][n_blocks][width]       where a sum of products starts: at i8_base_bits and more
//   bases    f32  [n_chunks][n_blocks][width]       -i8_base * scale: what the base adds to a sum, taken away
//   group_bases                                     of the first of i8_group_blocks: the sum of their bases
//   split    int8 [n_chunks][n_blocks][width][2][32]  or null: the codes' magnitudes, and signs: -1, else 0
//   carried       [n_tok][i8_max_carried(n_cols)]   by ascending index
//   n_carried     [n_tok]
//   maxima   f32  [n_tok][n_blocks]                 largest magnitude in a block, to choose what is carried
//
// Offsets, split and raised codes are for instruction sets that multiply unsigned by signed bytes. One takes
// code + 128 for each weight, and its sums start at the base minus 128 times the sum of the activations'
// codes. Or it takes raised activations, and its sums start at the base minus 128 times the sum of the
// weights, not at the offsets. Another takes magnitudes of activations and inverts the bits of a weight,
// which makes it -code - 1, where the activation is negative: the offsets beside `split` are the base plus
// the sums of those magnitudes.
//
// A row with a NaN, or a number from i8_beyond on, has codes 0, scales NaN and nothing carried, so that its
// products are NaN. The memory is the owner's; the quantising kernel writes all of its tokens but the unused
// ones of `carried`.
template <class Code>
struct Activations {
  std::size_t n_cols = 0;
  std::size_t width = 0;
  Code* codes = nullptr;
  float* scales = nullptr;
  std::int32_t* offsets = nullptr;
  float* bases = nullptr;
  float* group_bases = nullptr;
  CarriedEntry* carried = nullptr;
  std::uint32_t* n_carried = nullptr;
  float* maxima = nullptr;
  std::int8_t* split = nullptr;
  bool raised = false;
  std::size_t first = 0;  // token 0 is this one of its chunk

  // Where block b of token 0 is among the scales, offsets and bases, and its codes i8_block and its split
  // i8_split times as far on; the other tokens of the chunk follow.
  RUNNEL_ALWAYS_INLINE std::size_t place(std::size_t b) const noexcept { return b * width + first; }
  RUNNEL_ALWAYS_INLINE std::size_t n_in_chunk() const noexcept { return width - first; }
  // The code of 0. Inverting its bits in a code raises that.
  RUNNEL_ALWAYS_INLINE Code zero() const noexcept { return raised ? Code{-128} : Code{0}; }

  // The rows from token `begin` on.
  RUNNEL_ALWAYS_INLINE Activations tokens(std::size_t begin) const noexcept {
    if (begin == 0) return *this;
    const std::size_t chunk = chunk_of(first + begin, width);
    const std::size_t blocks = chunk * i8_blocks(n_cols) * width;
    return {n_cols,
            width,
            codes + blocks * i8_block,
            scales + blocks,
            offsets == nullptr ? nullptr : offsets + blocks,
            bases == nullptr ? nullptr : bases + blocks,
            group_bases == nullptr ? nullptr : group_bases + blocks,
            carried + begin * i8_max_carried(n_cols),
            n_carried + begin,
            maxima + begin * i8_blocks(n_cols),
            split == nullptr ? nullptr : split + blocks * i8_split,
            raised,
            first + begin - chunk * width};
  }
};
using ActivationsI8 = Activations<std::int8_t>;
// quant/i16.h; without offsets, bases and split, never raised
using ActivationsI16 = Activations<std::int16_t>;

// Tokens of a tile of activations in bf16. A chunk of them is whole tiles, as much room as there may be in
// use.
constexpr std::size_t bf16_tile = 16;
static_assert(i8_chunk % bf16_tile == 0);
RUNNEL_ALWAYS_INLINE std::size_t bf16_width(std::size_t n_tok) noexcept {
  return i8_width(filled_up(n_tok, bf16_tile));
}
RUNNEL_ALWAYS_INLINE std::size_t bf16_room(std::size_t n_tok) noexcept {
  return i8_room(filled_up(n_tok, bf16_tile));
}

// Activations rounded to the nearest bf16, for instruction sets that multiply I8 weights (i8.h) faster so
// than in int8. They lie in chunks and blocks as those above do:
//
//   values  bf16 [n_chunks][n_blocks][width][32]    zeros from n_cols on; width: bf16_width() of all tokens
//
// A row with a NaN or an infinity is NaN throughout. Tokens that only fill up a chunk may be anything.
struct ActivationsBf16 {
  std::size_t n_cols = 0;
  std::size_t width = 0;
  std::uint16_t* values = nullptr;
  std::size_t first = 0;  // token 0 is this one of its chunk

  // Where block b of token 0 is; the other tokens of the chunk follow.
  RUNNEL_ALWAYS_INLINE std::uint16_t* block(std::size_t b) const noexcept {
    return values + (b * width + first) * i8_block;
  }
  RUNNEL_ALWAYS_INLINE std::size_t n_in_chunk() const noexcept { return width - first; }

  // The rows from token `begin` on.
  RUNNEL_ALWAYS_INLINE ActivationsBf16 tokens(std::size_t begin) const noexcept {
    if (begin == 0) return *this;
    const std::size_t chunk = chunk_of(first + begin, width);
    return {n_cols, width, values + chunk * i8_blocks(n_cols) * width * i8_block,
            first + begin - chunk * width};
  }
};

}  // namespace runnel::quant
