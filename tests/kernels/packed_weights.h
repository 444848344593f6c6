// int8 weights in panels, whose numbers a check draws, and the products they are in.
#pragma once
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {

struct PackedCase {
  quant::VariantI8 variant;
  std::size_t n_rows, n_cols, n_tok;
  std::size_t y_stride() const { return n_rows + n_cols % 5; }
  const char* name() const { return variant == quant::VariantI8::g32 ? "g32" : "g128"; }
};

// Rows and columns that only fill up hold numbers too: nothing may depend on them.
struct PackedWeights {
  Guarded<std::int8_t> codes;  // for the check to draw
  Guarded<std::uint16_t> scales;
  quant::PanelsI8 panels;

  explicit PackedWeights(const PackedCase& c)
      : codes(quant::ShapeI8{c.variant, c.n_rows, c.n_cols}.n_codes()),
        scales(quant::ShapeI8{c.variant, c.n_rows, c.n_cols}.n_scales()),
        panels{{c.variant, c.n_rows, c.n_cols}, codes.data(), scales.data()} {}

  void draw_scales(Random& random) {
    for (std::uint16_t& scale : scales) {
      const float value = 0.01f * random.number();
      scale = is_narrow() ? quant::f32_to_f16(value) : quant::f32_to_bf16(value);
    }
  }

  int code(std::size_t r, std::size_t c) const {
    return codes[((r / 16 * panels.shape.n_steps() + c / 4) * 16 + r % 16) * 4 + c % 4];
  }
  std::vector<std::int8_t> row(std::size_t r) const {
    std::vector<std::int8_t> result(panels.shape.n_cols);
    for (std::size_t c = 0; c < result.size(); ++c) result[c] = static_cast<std::int8_t>(code(r, c));
    return result;
  }
  float scale(std::size_t r, std::size_t c) const {
    const std::size_t group = is_narrow() ? 32 : 128;
    const std::uint16_t bits = scales[(r / 16 * panels.shape.n_groups() + c / group) * 16 + r % 16];
    return is_narrow() ? quant::f16_to_f32(bits) : quant::bf16_to_f32(bits);
  }

 private:
  bool is_narrow() const { return panels.shape.variant == quant::VariantI8::g32; }
};

}  // namespace runnel::simd
