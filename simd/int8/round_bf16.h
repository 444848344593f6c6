// Activations become bf16 (quant/activations.h).
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>

#include "simd/int8/row_blocks.h"

namespace runnel::simd {
namespace {

void round_bf16(const quant::ActivationsBf16& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    const quant::ActivationsBf16 to = out.tokens(t);
    const float* const row = x + t * x_stride;
    const size_t n_full = out.n_cols / quant::i8_block;
    std::uint32_t largest = 0;
    const auto round = [&](size_t b, const float* from) {
      largest = std::max(largest, max_magnitude_bits(from));
      const __m512bh values = _mm512_cvtne2ps_pbh(load(from + lanes), load(from));
      std::memcpy(to.block(b), &values, sizeof values);
    };
    for (size_t b = 0; b < n_full; ++b) round(b, row + b * quant::i8_block);
    if (n_full != quant::i8_blocks(out.n_cols))
      round(n_full, FullBlock(row + n_full * quant::i8_block, block_size(out.n_cols, n_full)).x);
    if (largest < std::bit_cast<std::uint32_t>(infinity)) continue;
    constexpr BF16 not_a_number = 0x7fc0;
    for (size_t b = 0; b < quant::i8_blocks(out.n_cols); ++b)
      std::fill_n(to.block(b), quant::i8_block, not_a_number);
  }
}

}  // namespace
}  // namespace runnel::simd
