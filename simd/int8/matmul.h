// The product of packed int8 panels (quant/i8.h) with quantised activations (quant/activations.h), written
// once for all instruction sets: the order in which tiles (tile_product.h) go through a matrix. The panels of
// a tile stay in the L2 cache while the tokens pass.
//
// simd/isa/<name>.cpp makes matmul_i8<Dot>, with a Dot as tile_product.h describes it.
#pragma once
#include <algorithm>
#include <limits>

#include "simd/int8/tile_product.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// What the product reads of the weights, and where more comes from meanwhile.
struct Weights {
  quant::PanelsI8 panels;
  const std::int8_t* next;  // what the caller reads next, as large as the codes; null: the panels themselves
                            // come from memory

  size_t n_rows() const noexcept { return panels.shape.n_rows; }
  // What is to be prefetched while panels from number i on are multiplied; others lie panel_codes() apart,
  // and the next n panels are multiplied then.
  const std::int8_t* ahead(size_t i, size_t n) const noexcept {
    const size_t panel_codes = panels.shape.panel_codes();
    return next != nullptr ? next + i * panel_codes : panels.codes + (i + n) * panel_codes;
  }
};

// n_rows <= n_panels * 16 outputs of a token.
template <class Dot, class Groups, size_t n_panels, size_t n_tok>
inline void multiply_tile(float* y, size_t y_stride, const Tile& tile, size_t n_rows) noexcept {
  with_whole_rows<n_tok, n_panels * panel_rows>(
      y, y_stride, n_rows, tile.is_first(),
      [&](float* rows, size_t stride) { multiply_rows<Dot, Groups, n_panels, n_tok>(rows, stride, tile); });
}

// Larger tiles are whole, and of what they leave no tile has more tokens: each size is code.
template <size_t max_tokens>
constexpr size_t most_left = max_tokens < 8 ? max_tokens : max_tokens / 2;

// How many tiles n_tok tokens of one chunk take.
template <size_t max_tokens>
inline size_t count_tiles(size_t n_tok) noexcept {
  return n_tok / max_tokens + quant::divided_up(n_tok % max_tokens, most_left<max_tokens>);
}

// Tokens of one chunk, in tiles of at most max_tokens. Moves on in y and the tile.
template <class Dot, class Groups, size_t n_panels, size_t max_tokens>
inline void multiply_chunk(float*& y, size_t y_stride, Tile& tile, size_t n_left, size_t n_rows) noexcept {
  const auto multiply = [&](auto n_tok) {
    multiply_tile<Dot, Groups, n_panels, n_tok>(y, y_stride, tile, n_rows);
    y += n_tok * y_stride;
    tile.x = tile.x.tokens(n_tok);
    tile.ahead += tile.fetched();
  };
  constexpr size_t most = most_left<max_tokens>;
  if constexpr (max_tokens > most) {
    for (; n_left >= max_tokens; n_left -= max_tokens) multiply(std::integral_constant<size_t, max_tokens>());
  }
  while (n_left != 0) {
    const size_t n_tok = next_tile(n_left, most);
    with_constant<most>(n_tok, multiply);
    n_left -= n_tok;
  }
}

template <class Dot, class Groups, size_t n_panels, size_t max_tokens>
inline void multiply_tokens(float* y, size_t y_stride, Tile tile, size_t n_left, size_t n_rows) noexcept {
  while (n_left != 0) {
    const size_t n = std::min(n_left, tile.x.n_in_chunk());
    multiply_chunk<Dot, Groups, n_panels, max_tokens>(y, y_stride, tile, n, n_rows);
    n_left -= n;
  }
}

// How many lines of each of the panels that come next are prefetched at a time, so that all of them are there
// when the tokens have passed. Too few tiles would wait for them instead, unless the panels are there
// already.
template <size_t max_tokens>
inline size_t lines_ahead(const Weights& w, const Stretch& stretch, size_t n_tok) noexcept {
  if (w.next == nullptr && n_tok < 2 * max_tokens) return 0;
  const size_t n_tiles = std::max<size_t>(1, n_tok / max_tokens);
  const size_t n_lines = (stretch.end - stretch.begin) * block_bytes / line_bytes;
  return n_lines / std::max<size_t>(1, n_tiles * n_fetches(stretch)) + 1;
}

// The same for streamed blocks, each step of which prefetches so many bytes of each of the next panels.
template <size_t max_tokens>
inline size_t step_ahead(size_t n_tok) noexcept {
  return quant::divided_up(quant::i8_step_bytes, count_tiles<max_tokens>(n_tok));
}

// Dot for a few tokens, which are multiplied about as fast as the weights come from memory.
template <class Dot>
struct Streamed : Dot {
  template <size_t n_panels, size_t n_tok, class Steps, class Take>
  static void block(const BlockI8& block, Steps n_steps, Take take) noexcept {
    using Block = StreamedBlock<Dot::streams_few_to>;  // named, so that a Dot that only takes plain ones does
                                                       // not compile
    Dot::template block<n_panels, n_tok, Block>(Block{block}, n_steps, take);
  }
};
template <class Dot>
constexpr bool is_streamed = false;
template <class Dot>
constexpr bool is_streamed<Streamed<Dot>> = true;

// Rows from `begin` on, n_panels at a time. Where there is but one left, the others are replaced by it, and
// their sums are not stored.
template <class Dot, class Groups, size_t n_panels, size_t max_tokens>
inline void multiply_panels(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                            const Weights& w, const Stretch& stretch, size_t begin) noexcept {
  constexpr size_t rows = n_panels * panel_rows;
  const size_t ahead_lines = lines_ahead<max_tokens>(w, stretch, n_tok);
  Starts<Dot, n_panels> starts;
  for (; begin < w.n_rows(); begin += rows) {
    const size_t n_rows = std::min(rows, w.n_rows() - begin);
    const quant::PanelsI8 part = w.panels.rows(begin, n_rows);
    const bool whole = part.shape.n_panels() == n_panels;
    const bool more = w.next != nullptr || begin + 2 * rows <= w.n_rows();
    Tile tile{.codes = part.codes,
              .scales = part.scales,
              .codes_stride = whole ? part.shape.panel_codes() : 0,
              .scales_stride = whole ? part.shape.panel_scales() : 0,
              .x = x,
              .stretch = stretch,
              .y_panel_stride = panel_rows,
              .ahead = w.ahead(begin / panel_rows, n_panels) + stretch.begin * block_bytes,
              .ahead_lines = more ? ahead_lines : 0};
    starts.find(tile);
    multiply_tokens<Dot, Groups, n_panels, max_tokens>(y + begin, y_stride, tile, n_tok, n_rows);
  }
}

// A few tokens, for which the memory counts most: n_panels panels side by side, as far from each other as can
// be, so that each place that is read moves on from panel to panel and never jumps. Returns the rows that are
// done.
template <class Dot, class Groups, size_t n_panels, size_t max_tokens>
inline size_t multiply_streams(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                               const Weights& w, const Stretch& stretch) noexcept {
  const size_t n_each = w.n_rows() / panel_rows / n_panels;
  const size_t ahead_lines = is_streamed<Dot> ? 0 : lines_ahead<max_tokens>(w, stretch, n_tok);
  const size_t ahead_step = is_streamed<Dot> ? step_ahead<max_tokens>(n_tok) : 0;
  for (size_t i = 0; i < n_each; ++i) {
    const quant::PanelsI8 first = w.panels.rows(i * panel_rows, panel_rows);
    const bool more = w.next != nullptr || i + 1 < n_each;
    const Tile tile{.codes = first.codes,
                    .scales = first.scales,
                    .codes_stride = n_each * first.shape.panel_codes(),
                    .scales_stride = n_each * first.shape.panel_scales(),
                    .x = x,
                    .stretch = stretch,
                    .y_panel_stride = n_each * panel_rows,
                    .ahead = w.ahead(i, 1) + stretch.begin * block_bytes,
                    .ahead_lines = more ? ahead_lines : 0,
                    .ahead_step = more ? ahead_step : 0};
    multiply_tokens<Dot, Groups, n_panels, max_tokens>(y + i * panel_rows, y_stride, tile, n_tok,
                                                       n_panels * panel_rows);
  }
  return n_panels * n_each * panel_rows;
}

// With more of them the products count more than how the weights come from memory; fewer than two tiles would
// wait for many lines at once. Two tokens wait for the memory like one.
template <class Dot>
constexpr size_t few_tokens = std::max(size_t{16}, 2 * Dot::tile_tokens - 1);
constexpr size_t least_streamed = 3;

// A few tokens, but for the rows that no streams are left for. Returns the rows that are done.
template <class Dot, class Groups>
inline size_t multiply_few(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                           const Weights& w, const Stretch& stretch) noexcept {
  constexpr size_t n_panels = Dot::tile_panels, max_tokens = Dot::tile_tokens;
  using Few = std::conditional_t<Dot::streams_few_to != Cache::none, Streamed<Dot>, Dot>;
  if (n_tok == 1)  // stride 0: no next token's outputs to prefetch
    return multiply_streams<Dot, Groups, Dot::decode_panels, 1>(y, 0, x, n_tok, w, stretch);
  if (n_tok < least_streamed)
    return multiply_streams<Dot, Groups, n_panels, max_tokens>(y, y_stride, x, n_tok, w, stretch);
  return multiply_streams<Few, Groups, n_panels, max_tokens>(y, y_stride, x, n_tok, w, stretch);
}

// Sums that start from weights want them in stretches.
template <class Dot>
inline bool is_few(size_t n_tok) noexcept {
  return !StartsFromWeights<Dot> && n_tok <= few_tokens<Dot>;
}

template <class Dot, class Groups>
inline void multiply(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok, const Weights& w,
                     const Stretch& stretch) noexcept {
  size_t begin = 0;
  if constexpr (!StartsFromWeights<Dot>) {
    if (is_few<Dot>(n_tok)) begin = multiply_few<Dot, Groups>(y, y_stride, x, n_tok, w, stretch);
  }
  multiply_panels<Dot, Groups, Dot::tile_panels, Dot::tile_tokens>(y, y_stride, x, n_tok, w, stretch, begin);
}

// Tokens of a pass: the same for all passes, but for whole chunks.
inline size_t pass_tokens(const CacheUse& cache_use, size_t n_tok, size_t n_blocks) noexcept {
  const size_t stretch = std::min(std::max(size_t{1}, n_blocks), cache_use.stretch_blocks);
  const size_t n_chunks = quant::divided_up(n_tok, quant::i8_chunk);
  const size_t most = cache_use.pass_bytes / (stretch * quant::i8_block) / quant::i8_chunk;  // chunks
  return even_tile(n_chunks, most) * quant::i8_chunk;
}

template <class Dot, class Groups>
inline void multiply_pass(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                          const Weights& w) noexcept {
  const size_t n_blocks = quant::i8_blocks(x.n_cols);
  const size_t step = is_few<Dot>(n_tok) ? std::max(size_t{1}, n_blocks) : cache_use_of<Dot>().stretch_blocks;
  size_t begin = 0;
  do {  // once where there are no columns: all sums are zero
    const size_t end = std::min(begin + step, n_blocks);
    multiply<Dot, Groups>(y, y_stride, x, n_tok, w, {begin, end});
    begin = end;
  } while (begin < n_blocks);
}

// multiply(Groups(), y, x, n_tok) for each pass.
template <class Dot, class Multiply>
inline void for_each_pass(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                          quant::VariantI8 variant, Multiply multiply) noexcept {
  if (n_tok == 0) return;
  const size_t most = pass_tokens(cache_use_of<Dot>(), n_tok, quant::i8_blocks(x.n_cols));
  for (size_t t = 0; t < n_tok; t += most) {
    const size_t n = std::min(most, n_tok - t);
    if (variant == quant::VariantI8::g32) {
      multiply(NarrowGroups(), y + t * y_stride, x.tokens(t), n);
    } else {
      multiply(WideGroups(), y + t * y_stride, x.tokens(t), n);
    }
  }
}

template <class Dot>
bool reads_split_i8() noexcept {
  return Dot::reads_split;
}
inline size_t never_raised() noexcept { return std::numeric_limits<size_t>::max(); }

template <class Dot>
void matmul_i8(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
               const quant::PanelsI8& w, const void* next) noexcept {
  const Weights weights{w, static_cast<const std::int8_t*>(next)};
  for_each_pass<Dot>(y, y_stride, x, n_tok, w.shape.variant,
                     [&](auto groups, float* part, const quant::ActivationsI8& tokens, size_t n) {
                       multiply_pass<Dot, decltype(groups)>(part, y_stride, tokens, n, weights);
                     });
}

}  // namespace
}  // namespace runnel::simd
