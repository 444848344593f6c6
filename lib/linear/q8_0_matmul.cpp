#include "lib/linear/q8_0_matmul.h"

#include <algorithm>

namespace runnel {
namespace {

// Small enough that beside a block in panels the rows of the next one, which come from memory meanwhile, stay
// in a core's L2 cache until they are packed.
constexpr std::size_t block_codes = std::size_t{192} * 1024;
constexpr std::size_t tile_outputs =
    2 * simd::panel_rows;  // whole tiles of the product on any instruction set

// How many rows of n_cols to take at a time, of n_rows.
std::size_t block_rows(std::size_t n_rows, std::size_t n_cols) {
  const std::size_t most = std::max(tile_outputs, block_codes / n_cols / tile_outputs * tile_outputs);
  return even_part(n_rows, most, tile_outputs);
}

}  // namespace

std::size_t q8_0_block_codes(std::size_t max_cols) noexcept {
  return std::max(block_codes, tile_outputs * max_cols);
}

void q8_0_matmul(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                 const std::byte* next, const quant::ActivationsI8& x, Rows y, std::size_t n_tok) noexcept {
  const std::size_t n_rows = block_rows(rows.size(), w.n_cols);
  for (std::size_t r = rows.begin; r < rows.end; r += n_rows) {
    const quant::ShapeI8 shape{quant::VariantI8::g32, std::min(n_rows, rows.end - r), w.n_cols};
    kernels.pack_q8_0({shape, scratch.codes.data(), scratch.scales.data()},
                      reinterpret_cast<const quant::BlockQ8_0*>(w.at(r)));
    kernels.matmul_i8(y.data + r, y.stride, x, n_tok, {shape, scratch.codes.data(), scratch.scales.data()},
                      r + n_rows < rows.end ? w.at(r + n_rows) : next);
  }
}

}  // namespace runnel
