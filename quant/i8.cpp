#include "quant/i8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/float16.h"
#include "quant/max_magnitude.h"

namespace runnel::quant {
namespace {

// Where row, column 4 * step of a matrix lies; the 4 codes of a step are next to each other.
std::size_t code_offset(const ShapeI8& shape, std::size_t row, std::size_t step) noexcept {
  return row / i8_panel_rows * shape.panel_codes() + step * i8_step_bytes +
         row % i8_panel_rows * i8_step_cols;
}
std::size_t scale_offset(const ShapeI8& shape, std::size_t row, std::size_t group) noexcept {
  return row / i8_panel_rows * shape.panel_scales() + group * i8_panel_rows + row % i8_panel_rows;
}

// The nearest f16; where those are so coarse (below 2^-14) that the largest weight would be clipped, the next
// above.
std::uint16_t f16_scale(float max) noexcept {
  const std::uint16_t nearest = f32_to_f16(std::min(max / int8_most, f16_max));
  const bool clips = nearest != 0 && nearest < 0x0400u && max > (int8_most + 0.5f) * f16_to_f32(nearest);
  return static_cast<std::uint16_t>(nearest + (clips ? 1 : 0));
}

// The nearest bf16; a subnormal one would be as coarse, and is nothing a weight can need.
std::uint16_t bf16_scale(float max) noexcept {
  const float scale = max / int8_most;
  return scale < 0x1p-126f ? std::uint16_t{0} : f32_to_bf16(scale);
}

// To the nearest integer, ties to even, for |x| < 2^22: the sum has no bits left for a fraction. Unlike
// nearbyint, compilers turn this into vectors on every CPU.
float nearest_integer(float x) noexcept {
  constexpr float magic = 0x1.8p23f;
  return (x + magic) - magic;
}

void round_group(std::int8_t* codes, const float* w, std::size_t n, float scale) noexcept {
  if (scale == 0.0f) {
    std::fill_n(codes, n, std::int8_t{0});
    return;
  }
  for (std::size_t i = 0; i < n; ++i)
    codes[i] = static_cast<std::int8_t>(nearest_integer(std::clamp(w[i] / scale, -int8_most, int8_most)));
}

bool all_finite(const float* w, std::size_t n) noexcept {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(w[i]) & 0x7fffffffu);
  return largest < 0x7f800000u;
}

}  // namespace

std::uint16_t group_scale_i8(const float* w, std::size_t n, VariantI8 variant) noexcept {
  const float max = max_magnitude(w, n);
  return variant == VariantI8::g32 ? f16_scale(max) : bf16_scale(max);
}

float scale_value_i8(std::uint16_t bits, VariantI8 variant) noexcept {
  return variant == VariantI8::g32 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

std::size_t quantize_row_i8(std::int8_t* codes, std::uint16_t* scales, const float* w, std::size_t n_cols,
                            VariantI8 variant) noexcept {
  if (!all_finite(w, n_cols)) {
    return static_cast<std::size_t>(std::find_if(w, w + n_cols, [](float v) { return !std::isfinite(v); }) -
                                    w);
  }
  const std::size_t group = i8_group(variant);
  for (std::size_t c = 0; c < n_cols; c += group) {
    const std::size_t n = std::min(group, n_cols - c);
    scales[c / group] = group_scale_i8(w + c, n, variant);
    round_group(codes + c, w + c, n, scale_value_i8(scales[c / group], variant));
  }
  return n_cols;
}

void store_row_i8(const MutablePanelsI8& out, std::size_t row, const std::int8_t* codes,
                  const std::uint16_t* scales) noexcept {
  const ShapeI8& shape = out.shape;
  for (std::size_t step = 0; step < shape.n_steps(); ++step) {
    const std::size_t c = step * i8_step_cols;
    std::int8_t* const place = out.codes + code_offset(shape, row, step);
    for (std::size_t i = 0; i < i8_step_cols; ++i)
      place[i] = c + i < shape.n_cols ? codes[c + i] : std::int8_t{0};
  }
  for (std::size_t g = 0; g < shape.n_groups(); ++g) out.scales[scale_offset(shape, row, g)] = scales[g];
}

void clear_rows_i8(const MutablePanelsI8& out) noexcept {
  const ShapeI8& shape = out.shape;
  for (std::size_t row = shape.n_rows; row < shape.n_panels() * i8_panel_rows; ++row) {
    for (std::size_t step = 0; step < shape.n_steps(); ++step)
      std::fill_n(out.codes + code_offset(shape, row, step), i8_step_cols, std::int8_t{0});
    for (std::size_t g = 0; g < shape.n_groups(); ++g) out.scales[scale_offset(shape, row, g)] = 0;
  }
}

void decode_row_i8(float* y, const PanelsI8& in, std::size_t row) noexcept {
  const ShapeI8& shape = in.shape;
  const std::size_t group = shape.group();
  for (std::size_t begin = 0; begin < shape.n_cols; begin += group) {
    const std::size_t end = std::min(begin + group, shape.n_cols);
    const float scale = scale_value_i8(in.scales[scale_offset(shape, row, begin / group)], shape.variant);
    for (std::size_t c = begin; c < end; ++c) {
      const std::int8_t code = in.codes[code_offset(shape, row, c / i8_step_cols) + c % i8_step_cols];
      y[c] = static_cast<float>(code) * scale;
    }
  }
}

}  // namespace runnel::quant
