// AMX beside AVX-512 VNNI: products of int8 weights with many tokens, and attention over int8.
#include <cstring>

#include "simd/int8/attention_amx.h"
#include "simd/int8/dot_amx.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matmul_bf16.h"
#include "simd/int8/round_bf16.h"

namespace runnel::simd {
namespace {

void matmul_i8_amx(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                   const quant::PanelsI8& w, const void* next) noexcept {
  // Two are multiplied sooner than what the caller reads next comes, and would wait behind it.
  if (n_tok < least_streamed) next = nullptr;
  if (n_tok < tile_rows) return matmul_i8<DotFew>(y, y_stride, x, n_tok, w, next);
  TileShapes shapes;
  DotAmx::set(shapes);
  matmul_i8<DotAmx>(y, y_stride, x, n_tok, w, next);
}

// Whole tiles: 16 rows by 64 inputs by 16 rows.
std::uint64_t peak_i8_amx(size_t n) noexcept {
  TileShapes shapes;
  for (size_t tile = 0; tile < 6; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
  shapes.load();
  alignas(64) std::int8_t ones[tile_rows][tile_row_bytes];
  std::memset(ones, 1, sizeof ones);
  __asm__ volatile("" ::"r"(ones) : "memory");
  _tile_loadd(4, ones, tile_row_bytes);
  _tile_loadd(5, ones, tile_row_bytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t i = 0; i < n; ++i) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  alignas(64) std::int32_t counts[4][tile_rows][panel_rows];
  _tile_stored(0, counts[0], tile_row_bytes);
  _tile_stored(1, counts[1], tile_row_bytes);
  _tile_stored(2, counts[2], tile_row_bytes);
  _tile_stored(3, counts[3], tile_row_bytes);
  std::uint64_t total = 0;
  for (const auto& tile : counts) {
    for (const auto& row : tile) {
      for (const std::int32_t count : row) total += static_cast<std::uint64_t>(count);
    }
  }
  return total;
}

}  // namespace

extern const Kernels kernels_amx;
const Kernels kernels_amx{.peak_i8 = peak_i8_amx,
                          .reads_split_i8 = reads_split_i8<DotFew>,
                          .least_raised_i8 = never_raised,
                          .matmul_i8 = matmul_i8_amx,
                          .least_bf16 = least_bf16,
                          .round_bf16 = round_bf16,
                          .matmul_bf16 = matmul_bf16,
                          .matmul_bf16_q8_0 = matmul_bf16_q8_0,
                          .scores_i8 = scores_i8_amx,
                          .mix_i8 = mix_i8_amx,
                          .unfetched_i8 = unfetched_i8_amx};

}  // namespace runnel::simd
