// What arm_loops.py counts the instructions of: the int8 product of one row of kernels, so many times.
//
//   arm_call g128|g32 ROWS COLUMNS TOKENS CALLS
//
// All numbers are zeros, on which nothing depends that it does. RUNNEL_ROW: kernels_dotprod, ...
#include <cstdlib>
#include <string_view>
#include <vector>

#include "simd/kernels.h"

namespace runnel::simd {
extern const Kernels RUNNEL_ROW;
}

int main(int argc, char** argv) {
  using namespace runnel;
  if (argc != 6) return 2;
  const auto number = [&](int i) { return static_cast<std::size_t>(std::atoll(argv[i])); };
  const auto variant = std::string_view(argv[1]) == "g32" ? quant::VariantI8::g32 : quant::VariantI8::g128;
  const quant::ShapeI8 shape{variant, number(2), number(3)};
  const std::size_t n_tok = number(4);
  const std::size_t n_blocks = quant::i8_blocks(shape.n_cols) * quant::i8_room(n_tok);

  std::vector<std::int8_t> codes(shape.n_codes()), x_codes(n_blocks * quant::i8_block);
  std::vector<std::uint16_t> scales(shape.n_scales());
  std::vector<float> x_scales(n_blocks), x_bases(n_blocks), x_group_bases(n_blocks), x_maxima(n_blocks),
      y(n_tok * shape.n_rows);
  std::vector<std::int32_t> x_offsets(n_blocks);
  std::vector<quant::CarriedEntry> x_carried(n_tok * quant::i8_max_carried(shape.n_cols));
  std::vector<std::uint32_t> x_n_carried(n_tok);
  const quant::PanelsI8 w{shape, codes.data(), scales.data()};
  const quant::ActivationsI8 x{
      shape.n_cols,   quant::i8_width(n_tok), x_codes.data(),   x_scales.data(),    x_offsets.data(),
      x_bases.data(), x_group_bases.data(),   x_carried.data(), x_n_carried.data(), x_maxima.data(),
      nullptr};
  for (std::size_t i = 0; i < number(5); ++i)
    simd::RUNNEL_ROW.matmul_i8(y.data(), shape.n_rows, x, n_tok, w, nullptr);
  return 0;
}
