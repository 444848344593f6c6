#include "lib/q8_0_matmul.h"

#include <algorithm>

namespace runnel {
namespace {

// The more rows, the fewer times all activations come from beyond the L2 cache, where packing drives them
// out.
constexpr std::size_t block_codes = std::size_t{512} * 1024;
constexpr std::size_t tile_rows = 4 * simd::panel_rows;  // whole tiles of the product on any instruction set

// How many rows of n_cols to take at a time, of n_rows.
std::size_t block_rows(std::size_t n_rows, std::size_t n_cols) {
  const std::size_t most = std::max(simd::panel_rows, block_codes / n_cols);
  const std::size_t multiple = most < tile_rows ? simd::panel_rows : tile_rows;
  return even_part(n_rows, most / multiple * multiple, multiple);
}

}  // namespace

std::size_t q8_0_block_codes(std::size_t max_cols) noexcept {
  return std::max(block_codes, simd::panel_rows * max_cols);
}

void q8_0_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                 const quant::ActivationsI8& x, Rows y, std::size_t n_tok) noexcept {
  const std::size_t n_rows = block_rows(rows.size(), w.n_cols);
  for (std::size_t r = rows.begin; r < rows.end; r += n_rows) {
    const quant::ShapeI8 shape{quant::VariantI8::g32, std::min(n_rows, rows.end - r), w.n_cols};
    kernels.pack_q8_0({shape, scratch.codes.data(), scratch.scales.data()},
                      reinterpret_cast<const quant::BlockQ8_0*>(w.at(r)));
    kernels.matmul_i8(y.data + r, y.stride, x, n_tok, {shape, scratch.codes.data(), scratch.scales.data()});
  }
}

}  // namespace runnel
