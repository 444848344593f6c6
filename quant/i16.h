// I16: weights and activations as integers of 14 bits, in int16, for products of F16 and BF16 weights with
// many tokens. Processors multiply int16 twice as fast as floats, and the sum of a block of products is
// exact.
//
// Weights lie in panels like those of int8 (quant/i8.h), but two inputs of all 16 rows together, 64 bytes,
// and in whole blocks of 32 inputs:
//
//   codes   int16 [n_panels][n_steps][16][2]   codes[r / 16][c / 2][r % 16][c % 2] is row r, input c
//   scales  u16   [n_panels][n_groups][16]     bits of bf16, powers of two
//
//   w[r, c] = code * scale, n_steps = 16 ceil(n_cols / 32), n_groups = ceil(n_cols / 128)
//
// Rows and inputs that fill up are zeros. A scale is the one with which the largest of the group's weights
// has 13 bits. As it is a power of two, weights keep all bits (F16 has 11, BF16 8) down to a quarter (a 32nd)
// of the largest; smaller ones are rounded to the nearest multiple of the scale.
//
// Not every matrix is that good for. A weight is off by half its scale at most; with k the mean magnitude of
// an input's codes in a panel, what the input adds to a product is off by 1 / (2 k) of what it adds on
// average. F16 itself rounds a weight by 2^-11 of it at most (its unit roundoff). They are precise enough
// where that error is, in the mean square over a group's inputs, no more than four times F16's:
//
//   mean (256 / k)^2 <= 1
//
// How large the inputs are nobody knows here. All of them are taken to add as much to the products: a channel
// of activations can be divided by any s and its weights multiplied by it, and the model is the same. Without
// such channels the mean is near 0.03. A channel of weights that is s times larger takes log2 s bits from all
// others in its group, one that is s times smaller from its own.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "quant/activations.h"
#include "quant/always_inline.h"
#include "quant/i8.h"

namespace runnel::quant {

constexpr int i16_most = (1 << 13) - 1;  // magnitude of a code
constexpr std::size_t i16_block = i8_block;
constexpr std::size_t i16_step_cols = 2;
constexpr std::size_t i16_group = 128;
static_assert(std::int64_t{i16_block} * i16_most * i16_most <= std::numeric_limits<std::int32_t>::max());

// An activation is carried in float, as with int8, if it is more than so many times the lower median of the
// maxima of its row's blocks. Others of its block keep 10 bits at the least then.
constexpr float i16_carry_ratio = 8.0f;

struct ShapeI16 {
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;

  RUNNEL_ALWAYS_INLINE std::size_t n_panels() const noexcept { return divided_up(n_rows, i8_panel_rows); }
  RUNNEL_ALWAYS_INLINE std::size_t n_blocks() const noexcept { return divided_up(n_cols, i16_block); }
  RUNNEL_ALWAYS_INLINE std::size_t n_groups() const noexcept { return divided_up(n_cols, i16_group); }
  RUNNEL_ALWAYS_INLINE std::size_t panel_codes() const noexcept {
    return n_blocks() * i16_block * i8_panel_rows;
  }
  RUNNEL_ALWAYS_INLINE std::size_t panel_scales() const noexcept { return n_groups() * i8_panel_rows; }
  RUNNEL_ALWAYS_INLINE std::size_t n_codes() const noexcept { return n_panels() * panel_codes(); }
  RUNNEL_ALWAYS_INLINE std::size_t n_scales() const noexcept { return n_panels() * panel_scales(); }
};

// The memory is the owner's.
template <class Code, class Scale>
struct BasicPanelsI16 {
  ShapeI16 shape;
  Code* codes = nullptr;
  Scale* scales = nullptr;

  // Rows [begin, begin + n); begin a multiple of 16.
  RUNNEL_ALWAYS_INLINE BasicPanelsI16 rows(std::size_t begin, std::size_t n) const noexcept {
    const std::size_t panel = begin / i8_panel_rows;
    return {{n, shape.n_cols}, codes + panel * shape.panel_codes(), scales + panel * shape.panel_scales()};
  }
};
using PanelsI16 = BasicPanelsI16<const std::int16_t, const std::uint16_t>;
using MutablePanelsI16 = BasicPanelsI16<std::int16_t, std::uint16_t>;

// code = w * inverse, to nearest even; w = code * scale.
struct ScaleI16 {
  std::uint16_t scale;  // bits of bf16
  float inverse;        // 0: all codes are 0
};

// Of weights in F16 or BF16 whose largest magnitude is `max`. NaN where one is not finite, 0 where all are
// below i8_least_max. Without branches, for a loop over rows to become vectors.
RUNNEL_ALWAYS_INLINE ScaleI16 scale_i16(float max) noexcept {
  constexpr std::uint32_t exponent_bits = 0x7f800000;
  constexpr std::uint32_t bf16_nan = 0x7fc0;
  const std::uint32_t power = std::bit_cast<std::uint32_t>(max) & exponent_bits;  // 2^floor(log2 max)
  const std::uint32_t scale = (power - (12u << 23)) >> 16;                        // of it, 2^-12 times
  const std::uint32_t inverse = ((127u + 127u + 12u) << 23) - power;
  const bool is_finite = power != exponent_bits, has_codes = is_finite && max >= i8_least_max;
  return {static_cast<std::uint16_t>(has_codes   ? scale
                                     : is_finite ? 0
                                                 : bf16_nan),
          std::bit_cast<float>(has_codes ? inverse : 0)};
}

// The rows of a panel from which k is known: every second. The sum of the magnitudes of an input's codes in
// them has 16 bits.
constexpr std::size_t i16_sum_step = 2;
constexpr std::int32_t i16_least_sum = 256 * i8_panel_rows / i16_sum_step;
static_assert(i16_most * i8_panel_rows / i16_sum_step <= std::numeric_limits<std::uint16_t>::max());

// (256 / k)^2 in whole units, which add up to the same in any order; at most twice what a whole group may
// have.
constexpr std::int32_t i16_error_units = 1 << 14;
RUNNEL_ALWAYS_INLINE std::int32_t error_i16(std::int32_t sum) noexcept {
  constexpr float most = 2 * i16_group;
  const float error = static_cast<float>(i16_least_sum) / static_cast<float>(sum), square = error * error;
  return static_cast<std::int32_t>((square < most ? square : most) * float{i16_error_units});
}

}  // namespace runnel::quant
