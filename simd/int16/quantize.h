// Activations to int16 (quant/i16.h), by the passes that int8 has too (simd/int8/quantize.h).
#pragma once
#include "quant/i16.h"
#include "simd/int8/quantize.h"

namespace runnel::simd {
namespace {

template <>
struct CodesOf<std::int16_t> {
  static constexpr float most = static_cast<float>(quant::i16_most);
  static constexpr float carry_ratio = quant::i16_carry_ratio;
  static void round(const quant::ActivationsI16& out, size_t place, const float* x, float factor) noexcept {
    std::int16_t* const codes = out.codes + place * quant::i16_block;
    for (size_t i = 0; i < quant::i16_block; i += lanes)
      narrow_to_i16(codes + i, to_nearest(load(x + i) * F32(factor)));
  }
  static void clear(const quant::ActivationsI16& out, size_t place) noexcept {
    std::memset(out.codes + place * quant::i16_block, 0, quant::i16_block * sizeof *out.codes);
  }
  static void put_scale(const quant::ActivationsI16& out, size_t place, float quotient) noexcept {
    out.scales[place] = quotient;
  }
  static void put_group_bases(const quant::ActivationsI16&) noexcept {}
};

void quantize_i16(const quant::ActivationsI16& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  quantize_rows(out, x, x_stride, n_tok);
}

}  // namespace
}  // namespace runnel::simd
