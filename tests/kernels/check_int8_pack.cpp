// Q8_0 blocks in panels: every code and scale is where quant/i8.h says, written down here.
#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

using quant::BlockQ8_0;

void check_shape(const Kernels& kernels, std::size_t n_rows, std::size_t n_blocks, Random& random,
                 Report& report) {
  const quant::ShapeI8 shape{quant::VariantI8::g32, n_rows, n_blocks * BlockQ8_0::size};
  Guarded<BlockQ8_0> w(n_rows * n_blocks);
  for (BlockQ8_0& block : w) {
    block.d = static_cast<std::uint16_t>(random.bits());
    for (std::int8_t& code : block.qs) code = static_cast<std::int8_t>(random.bits());
  }
  Guarded<std::int8_t> codes(shape.n_codes());
  Guarded<std::uint16_t> scales(shape.n_scales());
  kernels.pack_q8_0({shape, codes.data(), scales.data()}, w.data());
  report.expect(codes.intact() && scales.intact(), "[%zu, %zu blocks] wrote before the panels", n_rows,
                n_blocks);
  for (std::size_t r = 0; r < (n_rows + 15) / 16 * 16; ++r) {
    for (std::size_t b = 0; b < n_blocks; ++b) {
      const BlockQ8_0 expected = r < n_rows ? w[r * n_blocks + b] : BlockQ8_0{};
      report.expect(scales[(r / 16 * n_blocks + b) * 16 + r % 16] == expected.d,
                    "[%zu, %zu blocks] scale of row %zu block %zu", n_rows, n_blocks, r, b);
      for (std::size_t i = 0; i < BlockQ8_0::size; ++i) {
        const std::size_t step = r / 16 * n_blocks * 8 + b * 8 + i / 4;
        report.expect(codes[(step * 16 + r % 16) * 4 + i % 4] == expected.qs[i],
                      "[%zu, %zu blocks] row %zu block %zu code %zu", n_rows, n_blocks, r, b, i);
      }
    }
  }
}

}  // namespace

void check_pack_q8_0(const Kernels& kernels, Report& report) {
  Random random;
  for (std::size_t n_rows = 0; n_rows <= 50; ++n_rows) {
    for (const std::size_t n_blocks : Sizes{0, 1, 2, 3, 8, 17})
      check_shape(kernels, n_rows, n_blocks, random, report);
  }
}

}  // namespace runnel::simd
