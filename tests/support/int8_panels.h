// Rows out of packed int8 panels, by the definition of the layout in quant/i8.h and not by its code.
#pragma once
#include <cstring>
#include <vector>

#include "quant/i8.h"
#include "quant/q8_0.h"

namespace runnel::test {

inline std::int8_t code_at(const quant::PanelsI8& in, std::size_t row, std::size_t col) {
  const std::size_t n_steps = (in.shape.n_cols + 3) / 4;
  return in.codes[((row / 16 * n_steps + col / 4) * 16 + row % 16) * 4 + col % 4];
}

// The bits of bf16 or f16.
inline std::uint16_t scale_at(const quant::PanelsI8& in, std::size_t row, std::size_t group) {
  return in.scales[(row / 16 * in.shape.n_groups() + group) * 16 + row % 16];
}

struct RowI8 {
  std::vector<std::int8_t> codes;     // [n_cols]
  std::vector<std::uint16_t> scales;  // [n_groups]
  bool operator==(const RowI8&) const = default;
};

inline RowI8 row_of(const quant::PanelsI8& in, std::size_t row) {
  RowI8 result;
  for (std::size_t c = 0; c < in.shape.n_cols; ++c) result.codes.push_back(code_at(in, row, c));
  for (std::size_t g = 0; g < in.shape.n_groups(); ++g) result.scales.push_back(scale_at(in, row, g));
  return result;
}

// Variant g32, n_cols % 32 == 0: the Q8_0 blocks of all rows.
inline std::vector<quant::BlockQ8_0> q8_0_blocks(const quant::PanelsI8& in) {
  std::vector<quant::BlockQ8_0> blocks;
  for (std::size_t r = 0; r < in.shape.n_rows; ++r) {
    const RowI8 row = row_of(in, r);
    for (std::size_t g = 0; g < in.shape.n_groups(); ++g) {
      quant::BlockQ8_0& block = blocks.emplace_back();
      block.d = row.scales[g];
      std::memcpy(block.qs, &row.codes[g * sizeof block.qs], sizeof block.qs);
    }
  }
  return blocks;
}

}  // namespace runnel::test
