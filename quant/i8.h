// I8: int8 weights packed for the kernels of every instruction set, read straight from a mapped file. Two
// variants:
//
//   g128  groups of 128 inputs, bf16 scale: 8 + 16 / 128 = 8.125 bits a weight
//   g32   groups of  32 inputs, f16 scale:  8 + 16 / 32  = 8.5 bits a weight; Q8_0 fits without any loss
//
// A matrix [n_rows, n_cols] (outputs, inputs) is cut into panels of 16 rows. Inside a panel 4 inputs of all
// 16 rows lie together, 64 bytes: one AVX-512 register, two of AVX2, four of NEON. All scales follow all
// codes, so that codes stay 64-byte aligned:
//
//   codes   int8 [n_panels][n_steps][16][4]   codes[r / 16][c / 4][r % 16][c % 4] is row r, input c
//   scales  u16  [n_panels][n_groups][16]     bits of bf16 (g128) or f16 (g32)
//
//   w[r, c] = code * scale: exact in f32
//
// n_steps = ceil(n_cols / 4), n_groups = ceil(n_cols / group), the last group may be shorter; rows and inputs
// that fill up are zeros. runnel writes codes within +-127; a loaded Q8_0 matrix may hold -128, and every
// kernel is exact for that as well.
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/always_inline.h"
#include "quant/q8_0.h"
#include "quant/round_up.h"

namespace runnel::quant {

enum class VariantI8 : std::uint8_t { g32, g128 };

constexpr std::size_t i8_panel_rows = 16;
constexpr std::size_t i8_step_cols = 4;
constexpr std::size_t i8_step_bytes = i8_panel_rows * i8_step_cols;
constexpr std::size_t i8_max_size = std::size_t{1} << 30;  // of n_rows and n_cols: nothing below can overflow

RUNNEL_ALWAYS_INLINE std::size_t i8_group(VariantI8 variant) noexcept {
  return variant == VariantI8::g32 ? 32 : 128;
}

// What a matrix takes; n_rows and n_cols up to i8_max_size.
struct ShapeI8 {
  VariantI8 variant = VariantI8::g128;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;

  RUNNEL_ALWAYS_INLINE std::size_t group() const noexcept { return i8_group(variant); }
  RUNNEL_ALWAYS_INLINE std::size_t n_panels() const noexcept { return divided_up(n_rows, i8_panel_rows); }
  RUNNEL_ALWAYS_INLINE std::size_t n_steps() const noexcept { return divided_up(n_cols, i8_step_cols); }
  RUNNEL_ALWAYS_INLINE std::size_t n_groups() const noexcept { return divided_up(n_cols, group()); }
  RUNNEL_ALWAYS_INLINE std::size_t panel_codes() const noexcept { return n_steps() * i8_step_bytes; }
  RUNNEL_ALWAYS_INLINE std::size_t panel_scales() const noexcept { return n_groups() * i8_panel_rows; }
  RUNNEL_ALWAYS_INLINE std::size_t n_codes() const noexcept { return n_panels() * panel_codes(); }
  RUNNEL_ALWAYS_INLINE std::size_t n_scales() const noexcept { return n_panels() * panel_scales(); }
  RUNNEL_ALWAYS_INLINE std::size_t bytes() const noexcept {
    return n_codes() + n_scales() * sizeof(std::uint16_t);
  }
};
static_assert(ShapeI8{VariantI8::g128, 4096, 4096}.bytes() * 8 * 1000 == std::size_t{4096} * 4096 * 8125);
static_assert(ShapeI8{VariantI8::g32, 4096, 4096}.bytes() * 8 * 10 == std::size_t{4096} * 4096 * 85);
static_assert(ShapeI8{VariantI8::g32, 16, 32}.bytes() == 16 * sizeof(BlockQ8_0));

// A packed matrix, or the rows of it from some panel on. The memory is the owner's: codes are 64-byte aligned
// where speed matters, scales 2-byte aligned.
template <class Code, class Scale>
struct BasicPanelsI8 {
  ShapeI8 shape;
  Code* codes = nullptr;    // [n_panels][n_steps][16][4]
  Scale* scales = nullptr;  // [n_panels][n_groups][16]

  // Rows [begin, begin + n); begin a multiple of 16.
  RUNNEL_ALWAYS_INLINE BasicPanelsI8 rows(std::size_t begin, std::size_t n) const noexcept {
    const std::size_t panel = begin / i8_panel_rows;
    return {{shape.variant, n, shape.n_cols},
            codes + panel * shape.panel_codes(),
            scales + panel * shape.panel_scales()};
  }
};
using PanelsI8 = BasicPanelsI8<const std::int8_t, const std::uint16_t>;
using MutablePanelsI8 = BasicPanelsI8<std::int8_t, std::uint16_t>;

// ---- Packing, row by row, for the caller to stream and to split. Q8_0 rows go into panels by a kernel
// (simd/kernels.h).

// What a row becomes: scales[n_groups] with scale = max |w| / 127, rounded to bf16 or f16, and codes[n_cols]
// with code = w / scale to the nearest integer, ties to even. A group of zeros, or too small for its scale,
// has scale and codes 0; an f16 scale saturates at 65504, as in Q8_0. Returns the first column that is not
// finite (nothing of value is written then), n_cols if all are.
std::size_t quantize_row_i8(std::int8_t* codes, std::uint16_t* scales, const float* w, std::size_t n_cols,
                            VariantI8 variant) noexcept;

// The scale of one group as quantize_row_i8 chooses it; w: [n] finite.
std::uint16_t group_scale_i8(const float* w, std::size_t n, VariantI8 variant) noexcept;
float scale_value_i8(std::uint16_t bits, VariantI8 variant) noexcept;

// One row into its place, the filling columns too. codes: [n_cols], scales: [n_groups].
void store_row_i8(const MutablePanelsI8& out, std::size_t row, const std::int8_t* codes,
                  const std::uint16_t* scales) noexcept;

// Zeros in the rows that fill up the last panel.
void clear_rows_i8(const MutablePanelsI8& out) noexcept;

// y[n_cols] = row `row`: an embedding, and the reference of the format.
void decode_row_i8(float* y, const PanelsI8& in, std::size_t row) noexcept;

}  // namespace runnel::quant
