// The product of packed int8 weights (quant/i8.h) with activations in bf16 (quant/activations.h), by AMX.
// Sums of int8 products would have to leave the tile registers after each 32 inputs, to meet their scales.
// Here weights become bf16, scales and all, two panels at a time, and sums stay in the tiles while the inputs
// of a stretch pass: a tile instruction multiplies 32 inputs of 16 tokens with those of 16 rows.
#pragma once
#include <algorithm>

#include "simd/int8/matmul.h"
#include "simd/int8/row_blocks.h"
#include "simd/int8/tile_registers.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// Fewer tokens are multiplied in int8 sooner than weights become bf16 (tests/bench/experiments.md).
constexpr size_t least_tokens_bf16 = 64;

constexpr size_t bf16_panels = 2;                           // side by side
constexpr size_t bf16_tiles = quant::i8_chunk / tile_rows;  // of tokens at a time: a chunk
constexpr size_t bf16_pass = 6 * quant::i8_chunk;           // tokens whose inputs stay in the L2 cache
constexpr size_t widen_ahead = 4096;                        // bytes that are prefetched ahead
static_assert(quant::bf16_tile == tile_rows && quant::i8_block * sizeof(BF16) == tile_row_bytes);

// A block of a panel as the tile instruction wants it: pair k of inputs, row r.
using TileOfWeights = BF16[quant::i8_block / 2][panel_rows][2];
constexpr size_t bf16_stretch = 64;  // blocks whose weights are in bf16 at a time
using StretchOfWeights = TileOfWeights[bf16_panels][bf16_stretch];
static_assert(sizeof(StretchOfWeights) == bf16_scratch * sizeof(BF16));

// Bytes (2 pair, 2 pair + 1) of rows [8 half, 8 half + 8) of a step, each the highest of four.
template <size_t pair, size_t half>
inline __m512i highest_bytes(__m512i step) noexcept {
  alignas(64) static constexpr auto places = [] {
    struct {
      std::uint8_t of[64] = {};
    } at;
    for (size_t i = 0; i < lanes; ++i)
      at.of[4 * i + 3] =
          static_cast<std::uint8_t>((8 * half + i / 2) * quant::i8_step_cols + 2 * pair + i % 2);
    return at;
  }();
  return _mm512_maskz_permutexvar_epi8(0x8888888888888888, _mm512_load_si512(places.of), step);
}

// The scales of rows [8 half, 8 half + 8), each twice, for numbers 2^24 times too large.
template <size_t half>
inline F32 twice(F32 scales) noexcept {
  constexpr int h = 8 * half;
  const __m512i rows = _mm512_setr_epi32(h, h, h + 1, h + 1, h + 2, h + 2, h + 3, h + 3, h + 4, h + 4, h + 5,
                                         h + 5, h + 6, h + 6, h + 7, h + 7);
  return F32(_mm512_permutexvar_ps(rows, scales)) * F32(0x1p-24f);
}

// n_steps of a block, the rest zeros.
inline void widen_block(TileOfWeights& tile, const std::int8_t* w, F32 scales, size_t n_steps) noexcept {
  const F32 low = twice<0>(scales), high = twice<1>(scales);
  const auto store_pair = [&](size_t at, __m512i low_bytes, __m512i high_bytes) {
    const __m512bh pair =
        _mm512_cvtne2ps_pbh(to_float(I32(high_bytes)) * high, to_float(I32(low_bytes)) * low);
    std::memcpy(tile[at], &pair, sizeof pair);
  };
  for (size_t step = 0; step < n_steps; ++step) {
    prefetch(w + step * quant::i8_step_bytes, widen_ahead);
    const __m512i bytes = load_i32(w + step * quant::i8_step_bytes);
    store_pair(2 * step, highest_bytes<0, 0>(bytes), highest_bytes<0, 1>(bytes));
    store_pair(2 * step + 1, highest_bytes<1, 0>(bytes), highest_bytes<1, 1>(bytes));
  }
  for (size_t at = 2 * n_steps; at < std::size(tile); ++at) std::memset(tile[at], 0, sizeof tile[at]);
}

// Blocks of a panel, which has all its columns.
template <class Groups>
inline void widen_panel(TileOfWeights (&tiles)[bf16_stretch], const quant::PanelsI8& panel,
                        const Stretch& stretch) noexcept {
  for (size_t b = stretch.begin; b < stretch.end; ++b) {
    const F32 scales = Groups::load_scale(panel.scales + b / Groups::blocks * panel_rows);
    const size_t n_steps = std::min(block_steps, panel.shape.n_steps() - b * block_steps);
    widen_block(tiles[b - stretch.begin], panel.codes + b * block_bytes, scales, n_steps);
  }
}

// What is needed next, a little with each block: outputs of the next chunk, and what the caller reads then.
struct AheadBf16 {
  const float* y;
  size_t y_stride;
  const std::int8_t* next;  // or null

  static constexpr size_t n_rows = 2, n_lines = 1;  // with each block

  void fetch(size_t b) const noexcept {
    if (next != nullptr) prefetch_l2(next + b * n_lines * line_bytes);
    if (b >= quant::i8_chunk / n_rows) return;
    for (size_t i = 0; i < n_rows; ++i) {
      const float* const row = y + (b * n_rows + i) * y_stride;
      for (size_t p = 0; p < bf16_panels; ++p) prefetch_to_write(row + p * panel_rows);
    }
  }
};

// Tiles of tokens by panels; of the tile registers 0 to 5 hold sums, 6 weights and 7 activations. Each
// activation is loaded twice at most.
template <size_t n_tiles, size_t n_panels>
void multiply_tiles(float* y, size_t y_stride, bool is_first, const BF16* x, size_t x_block,
                    const StretchOfWeights& w, size_t n_blocks, const AheadBf16& ahead) noexcept {
  const auto for_each_sum = [](auto f) {
    for_each_index<n_tiles>([&](auto t) { for_each_index<n_panels>([&](auto p) { f(t, p); }); });
  };
  const size_t stride = y_stride * sizeof *y;
  finish_stores();
  const auto outputs = [&](size_t t, size_t p) { return y + t * tile_rows * y_stride + p * panel_rows; };
  for_each_sum([&](auto t, auto p) {
    if (is_first)
      zero_tile<bf16_panels * t + p>();
    else
      load_tile<bf16_panels * t + p>(outputs(t, p), stride);
  });
  for (size_t b = 0; b < n_blocks; ++b) {
    const BF16* const block = x + b * x_block;
    ahead.fetch(b);
    load_tile<6>(w[0][b], tile_row_bytes);
    for_each_index<n_tiles>([&](auto t) {
      load_tile<7>(block + t * tile_rows * quant::i8_block, tile_row_bytes);
      add_products_bf16<bf16_panels * t>();
    });
    if constexpr (n_panels == 2) {
      load_tile<6>(w[1][b], tile_row_bytes);
      for_each_index<n_tiles>([&](auto i) {
        constexpr size_t t = n_tiles - 1 - i;
        if constexpr (i != 0) load_tile<7>(block + t * tile_rows * quant::i8_block, tile_row_bytes);
        add_products_bf16<bf16_panels * t + 1>();
      });
    }
  }
  for_each_sum([&](auto t, auto p) { store_tile<bf16_panels * t + p>(outputs(t, p), stride); });
}

// work(y, y_stride) with room for whole tiles: the outputs themselves, or a copy of n_tok by n_rows of them.
// (with_whole_rows() knows the tokens; where they vary GCC 12 writes other code of the int8 products.)
template <class Work>
inline void with_whole_tiles(float* y, size_t y_stride, size_t n_tok, size_t n_rows, bool is_whole,
                             bool is_first, Work work) noexcept {
  if (is_whole) return work(y, y_stride);
  constexpr size_t stride = bf16_panels * panel_rows;
  alignas(64) float copy[quant::i8_chunk * stride] = {};
  if (!is_first) {
    for (size_t t = 0; t < n_tok; ++t) std::copy_n(y + t * y_stride, n_rows, copy + t * stride);
  }
  work(copy, stride);
  for (size_t t = 0; t < n_tok; ++t) std::copy_n(copy + t * stride, n_rows, y + t * y_stride);
}

// Tokens of one chunk.
template <size_t n_panels>
inline void multiply_chunk_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                                const StretchOfWeights& w, size_t n_rows, const Stretch& stretch,
                                const AheadBf16& ahead) noexcept {
  const bool is_first = stretch.begin == 0;
  const bool is_whole = n_tok % tile_rows == 0 && n_rows == n_panels * panel_rows;
  with_whole_tiles(y, y_stride, n_tok, n_rows, is_whole, is_first, [&](float* sums, size_t sums_stride) {
    with_constant<bf16_tiles>(quant::divided_up(n_tok, tile_rows), [&](auto n_tiles) {
      multiply_tiles<n_tiles, n_panels>(sums, sums_stride, is_first, x.block(stretch.begin),
                                        x.width * quant::i8_block, w, stretch.end - stretch.begin, ahead);
    });
  });
}

// The tokens of a pass with one or two panels, whose weights are in bf16.
inline void multiply_tokens_bf16(float* y, size_t y_stride, quant::ActivationsBf16 x, size_t n_tok,
                                 const StretchOfWeights& w, size_t n_rows, const Stretch& stretch,
                                 const std::int8_t*& next) noexcept {
  for (size_t n = 0; n_tok != 0; n_tok -= n, y += n * y_stride, x = x.tokens(n)) {
    n = std::min(n_tok, x.n_in_chunk());
    const AheadBf16 ahead{y + n * y_stride, y_stride, next};
    if (n_rows <= panel_rows)
      multiply_chunk_bf16<1>(y, y_stride, x, n, w, n_rows, stretch, ahead);
    else
      multiply_chunk_bf16<2>(y, y_stride, x, n, w, n_rows, stretch, ahead);
    if (next != nullptr) next += (stretch.end - stretch.begin) * AheadBf16::n_lines * line_bytes;
  }
}

template <class Groups>
inline void multiply_pass_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                               const quant::PanelsI8& w, const std::int8_t* next,
                               StretchOfWeights& widened) noexcept {
  constexpr size_t rows = bf16_panels * panel_rows;
  const size_t n_blocks = quant::i8_blocks(x.n_cols), step = even_tile(n_blocks, bf16_stretch);
  for (size_t begin = 0; begin < n_blocks; begin += step) {
    const Stretch stretch{begin, std::min(begin + step, n_blocks)};
    for (size_t r = 0; r < w.shape.n_rows; r += rows) {
      const size_t n_rows = std::min(rows, w.shape.n_rows - r);
      for (size_t p = 0; p * panel_rows < n_rows; ++p)
        widen_panel<Groups>(widened[p], w.rows(r + p * panel_rows, panel_rows), stretch);
      multiply_tokens_bf16(y + r, y_stride, x, n_tok, widened, n_rows, stretch, next);
    }
  }
}

size_t least_bf16() noexcept { return least_tokens_bf16; }

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

void matmul_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                 const quant::PanelsI8& w, const void* next, BF16* scratch) noexcept {
  if (n_tok == 0) return;
  if (x.n_cols == 0) {
    for (size_t t = 0; t < n_tok; ++t) std::fill_n(y + t * y_stride, w.shape.n_rows, 0.0f);
    return;
  }
  TileShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
  shapes.load();
  StretchOfWeights& widened = *reinterpret_cast<StretchOfWeights*>(scratch);
  const auto* const later = static_cast<const std::int8_t*>(next);
  const size_t most = even_tile(quant::divided_up(n_tok, x.width), bf16_pass / quant::i8_chunk) * x.width;
  for (size_t t = 0; t < n_tok; t += most) {
    const size_t n = std::min(most, n_tok - t);
    float* const part = y + t * y_stride;
    if (w.shape.variant == quant::VariantI8::g32)
      multiply_pass_bf16<NarrowGroups>(part, y_stride, x.tokens(t), n, w, later, widened);
    else
      multiply_pass_bf16<WideGroups>(part, y_stride, x.tokens(t), n, w, later, widened);
  }
}

}  // namespace
}  // namespace runnel::simd
