// The product of packed int8 panels (quant/i8.h) with quantised activations, written once for all instruction
// sets. For a tile of panels and tokens each block of 32 inputs is summed exactly in int32 registers, by the
// instruction set's Dot; then one conversion and one fused addition carry it into float sums, in the order
// that kernels.h lays down. The panels of a tile stay in the L2 cache while the tokens pass.
//
// simd/isa/<name>.cpp makes matmul_i8<Dot> with
//
//   struct Dot {
//     static constexpr size_t tile_panels, tile_tokens;  // what fills the registers
//     static constexpr size_t decode_panels;             // read side by side for a single token
//     static constexpr size_t decode_ahead;              // bytes that it prefetches ahead; 0: it does not
//     static constexpr Cache streams_few_to;             // none: block() is only called with a BlockI8
//     static constexpr bool reads_split;                 // of the activations, not their codes
//     // Calls take(t, p, v, dots) once for each vector: `lanes` dots of token t with the rows from v * lanes
//     // on of panel p, as floats.
//     // Block: BlockI8, or for a few tokens StreamedBlock.
//     template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
//     static void block(const Block& block, Steps n_steps, Take take) noexcept;
//     // May be missing. Adds blocks of the tile to y, whole groups of them, from its first on; returns the
//     // block where it stopped. If there are any, prefetches the next outputs meanwhile.
//     template <class Groups, size_t n_panels, size_t n_tok>
//     static size_t add_groups(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept;
//   };
#pragma once
#include <algorithm>

#include "simd/int8/tile.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

template <size_t n_panels, size_t n_tok>
using Sums = F32[n_tok][n_panels][panel_vecs];

// Value by value: `= {}` becomes a loop over memory.
template <size_t n_panels, size_t n_tok>
inline void clear(Sums<n_panels, n_tok>& sums) noexcept {
  RUNNEL_UNROLL
  for (size_t t = 0; t < n_tok; ++t) {
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) sums[t][p][v] = F32(0.0f);
    }
  }
}

// The two variants of the weights.
struct WideGroups {
  static constexpr size_t blocks = 4;
  static F32 load_scale(const std::uint16_t* p) noexcept { return load_bf16(p); }
};
struct NarrowGroups {
  static constexpr size_t blocks = 1;
  static F32 load_scale(const std::uint16_t* p) noexcept { return load_f16(p); }
};

// Blocks [begin, end) of all columns; begin at a group.
struct Stretch {
  size_t begin, end;
};
constexpr size_t fetch_blocks = 4;  // after so many, some of the next panels are fetched
inline size_t n_fetches(const Stretch& stretch) noexcept {
  return quant::divided_up(stretch.end - stretch.begin, fetch_blocks);
}

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

// Panels and tokens of a tile.
struct Tile {
  const std::int8_t* codes;
  const std::uint16_t* scales;
  size_t codes_stride;  // from panel to panel; 0 repeats the only one
  size_t scales_stride;
  quant::ActivationsI8 x;              // tokens of one chunk
  Stretch stretch;                     // that is summed now
  size_t y_panel_stride = panel_rows;  // of a token's outputs
  const std::int8_t* ahead = nullptr;  // codes of the panels that come next, codes_stride apart
  size_t ahead_lines = 0;              // of each that are fetched at once
  size_t ahead_step = 0;               // of each that are prefetched in a step of a streamed block, in bytes

  bool is_first() const noexcept { return stretch.begin == 0; }
  bool is_last() const noexcept { return stretch.end == quant::i8_blocks(x.n_cols); }
  size_t end_whole() const noexcept { return std::min(stretch.end, x.n_cols / quant::i8_block); }
  // Of the last block, where it is not whole.
  size_t last_steps() const noexcept {
    return quant::divided_up(x.n_cols % quant::i8_block, quant::i8_step_cols);
  }
  template <bool reads_split = false>
  BlockI8 block(size_t b) const noexcept {
    const size_t place = x.place(b);
    return {codes + b * block_bytes,
            codes_stride,
            reads_split ? x.split + place * quant::i8_split : x.codes + place * quant::i8_block,
            x.offsets + place,
            ahead + fetched_before(b),
            ahead_step};
  }
  // By the steps of streamed blocks, in bytes of each of the next panels.
  size_t fetched_before(size_t b) const noexcept { return (b - stretch.begin) * block_steps * ahead_step; }
  // By the whole tile, in either way.
  size_t fetched() const noexcept {
    return n_fetches(stretch) * ahead_lines * line_bytes + fetched_before(stretch.end);
  }
  // In every lane.
  F32 x_scale(size_t t, size_t b) const noexcept { return F32(x.scales[x.place(b) + t]); }
  template <class Groups>
  F32 w_scale(size_t p, size_t v, size_t group) const noexcept {
    return Groups::load_scale(scales + p * scales_stride + group * panel_rows + v * lanes);
  }
};

// Some of what comes next from memory into the L2 cache. Many lines at once would wait for each other, and
// the products for them.
template <size_t n_panels, size_t n_tok>
inline void fetch_panels_ahead(const Tile& tile, size_t b) noexcept {
  if constexpr (n_tok > 1) {
    const std::int8_t* at =
        tile.ahead + (b - tile.stretch.begin) / fetch_blocks * tile.ahead_lines * line_bytes;
    for (size_t i = 0; i < tile.ahead_lines; ++i, at += line_bytes) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) prefetch_l2(at + p * tile.codes_stride);
    }
  }
}

// A single token waits for the memory alone.
template <size_t ahead, size_t n_panels>
inline void fetch_weights_ahead(const BlockI8& block) noexcept {
  RUNNEL_UNROLL
  for (size_t p = 0; p < n_panels; ++p) {
    RUNNEL_UNROLL
    for (size_t i = 0; i < block_bytes; i += line_bytes) prefetch(block.w + p * block.w_stride + i, ahead);
  }
}

// y += the block's dots times their scale(t, p, v).
template <class Dot, size_t n_panels, size_t n_tok, class Steps, class Scale>
inline void add_block(Sums<n_panels, n_tok>& y, const BlockI8& block, Steps n_steps, Scale scale) noexcept {
  if constexpr (n_tok == 1 && Dot::decode_ahead != 0) fetch_weights_ahead<Dot::decode_ahead, n_panels>(block);
  Dot::template block<n_panels, n_tok>(block, n_steps, [&](size_t t, size_t p, size_t v, F32 dots) {
    y[t][p][v] = fmadd(dots, scale(t, p, v), y[t][p][v]);
  });
}

// The sums of a tile over all blocks from `first` on, but for the carried entries.
template <class Dot, size_t n_panels, size_t n_tok>
inline void add_blocks(WideGroups, Sums<n_panels, n_tok>& y, const Tile& tile, size_t first) noexcept {
  const size_t end_whole = tile.end_whole();
  for (size_t begin = first; begin < tile.stretch.end; begin += WideGroups::blocks) {
    Sums<n_panels, n_tok> part;
    clear<n_panels, n_tok>(part);
    fetch_panels_ahead<n_panels, n_tok>(tile, begin);
    const auto add = [&](size_t b, auto n_steps) {
      add_block<Dot, n_panels, n_tok>(part, tile.block<Dot::reads_split>(b), n_steps,
                                      [&](size_t t, size_t, size_t) { return tile.x_scale(t, b); });
    };
    const size_t end = std::min(begin + WideGroups::blocks, tile.stretch.end);
    for (size_t b = begin; b < std::min(end, end_whole); ++b) add(b, WholeBlock());
    if (end_whole < end) add(end_whole, tile.last_steps());
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        const F32 scale = tile.w_scale<WideGroups>(p, v, begin / WideGroups::blocks);
        RUNNEL_UNROLL
        for (size_t t = 0; t < n_tok; ++t) y[t][p][v] = fmadd(part[t][p][v], scale, y[t][p][v]);
      }
    }
  }
}
template <class Dot, size_t n_panels, size_t n_tok>
inline void add_blocks(NarrowGroups, Sums<n_panels, n_tok>& y, const Tile& tile, size_t first) noexcept {
  const auto add = [&](size_t b, auto n_steps) {
    add_block<Dot, n_panels, n_tok>(y, tile.block<Dot::reads_split>(b), n_steps,
                                    [&](size_t t, size_t p, size_t v) {
                                      return tile.x_scale(t, b) * tile.w_scale<NarrowGroups>(p, v, b);
                                    });
  };
  const size_t end_whole = tile.end_whole();
  for (size_t begin = first; begin < end_whole; begin += fetch_blocks) {
    fetch_panels_ahead<n_panels, n_tok>(tile, begin);
    for (size_t b = begin; b < std::min(begin + fetch_blocks, end_whole); ++b) add(b, WholeBlock());
  }
  if (end_whole < tile.stretch.end) add(end_whole, tile.last_steps());
}

// The outputs of the tile that comes next, tokens `stride` apart.
struct NextOutputs {
  const float* y;
  size_t stride;
  size_t panel_stride;

  template <size_t n_panels>
  void fetch(size_t t) const noexcept {
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) prefetch_to_write(y + t * stride + p * panel_stride);
  }
};

template <class Dot, class Groups, size_t n_panels, size_t n_tok>
inline void add_all_blocks(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept {
  size_t first = tile.stretch.begin;
  if constexpr (requires { Dot::template add_groups<Groups, n_panels, n_tok>(y, tile, next); }) {
    first = Dot::template add_groups<Groups, n_panels, n_tok>(y, tile, next);
  } else {
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) next.fetch<n_panels>(t);
  }
  add_blocks<Dot, n_panels, n_tok>(Groups(), y, tile, first);
}

// The numbers of one token, each panel's after those of the one before.
template <size_t n_panels>
inline void store_rows(float* y, const F32 (&sums)[n_panels][panel_vecs], const Tile& tile) noexcept {
  RUNNEL_UNROLL
  for (size_t p = 0; p < n_panels; ++p) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) store(y + p * tile.y_panel_stride + v * lanes, sums[p][v]);
  }
}
template <size_t n_panels>
inline void load_rows(F32 (&sums)[n_panels][panel_vecs], const float* y, const Tile& tile) noexcept {
  RUNNEL_UNROLL
  for (size_t p = 0; p < n_panels; ++p) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) sums[p][v] = load(y + p * tile.y_panel_stride + v * lanes);
  }
}

// y += value * column `index` of the panels, for each carried entry of token t. In registers from the first
// to the last of them.
template <class Groups, size_t n_panels>
inline void add_carried(float* y, const Tile& tile, size_t t) noexcept {
  const size_t n_carried = tile.x.n_carried[t];
  if (n_carried == 0) return;
  Sums<n_panels, 1> sums;
  load_rows<n_panels>(sums[0], y, tile);
  const quant::CarriedEntry* carried = tile.x.carried + t * quant::i8_max_carried(tile.x.n_cols);
  for (size_t i = 0; i < n_carried; ++i) {
    const size_t index = carried[i].index;
    const size_t group = index / (Groups::blocks * quant::i8_block);
    const std::int8_t* const step =
        tile.codes + index / quant::i8_step_cols * quant::i8_step_bytes;  // of the first panel
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        const I32 four = load_i32(step + p * tile.codes_stride + v * lanes * quant::i8_step_cols);
        const F32 weights =
            to_float(byte_of(four, index % quant::i8_step_cols)) * tile.template w_scale<Groups>(p, v, group);
        sums[0][p][v] = fmadd(F32(carried[i].value), weights, sums[0][p][v]);
      }
    }
  }
  store_rows<n_panels>(y, sums[0], tile);
}

// y: [n_tok, n_panels * 16], tokens y_stride apart. Holds the sums between stretches. Not inlined: GCC 12
// would copy parts of the tile each time, by wide loads that wait for narrow stores.
template <class Dot, class Groups, size_t n_panels, size_t n_tok>
[[gnu::noinline]] void multiply_rows(float* y, size_t y_stride, const Tile& tile) noexcept {
  Sums<n_panels, n_tok> sums;
  if (tile.is_first()) {
    clear<n_panels, n_tok>(sums);
  } else {
    RUNNEL_UNROLL
    for (size_t t = 0; t < n_tok; ++t) load_rows<n_panels>(sums[t], y + t * y_stride, tile);
  }
  add_all_blocks<Dot, Groups, n_panels, n_tok>(sums, tile,
                                               {y + n_tok * y_stride, y_stride, tile.y_panel_stride});
  RUNNEL_UNROLL
  for (size_t t = 0; t < n_tok; ++t) store_rows<n_panels>(y + t * y_stride, sums[t], tile);
  if (!tile.is_last()) return;
  for (size_t t = 0; t < n_tok; ++t) add_carried<Groups, n_panels>(y + t * y_stride, tile, t);
}

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
    const size_t n_tok = even_tile(n_left, most);
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
  for (; begin < w.n_rows(); begin += rows) {
    const size_t n_rows = std::min(rows, w.n_rows() - begin);
    const quant::PanelsI8 part = w.panels.rows(begin, n_rows);
    const bool whole = part.shape.n_panels() == n_panels;
    const bool more = w.next != nullptr || begin + 2 * rows <= w.n_rows();
    const Tile tile{.codes = part.codes,
                    .scales = part.scales,
                    .codes_stride = whole ? part.shape.panel_codes() : 0,
                    .scales_stride = whole ? part.shape.panel_scales() : 0,
                    .x = x,
                    .stretch = stretch,
                    .y_panel_stride = panel_rows,
                    .ahead = w.ahead(begin / panel_rows, n_panels) + stretch.begin * block_bytes,
                    .ahead_lines = more ? ahead_lines : 0};
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

template <class Dot, class Groups>
inline void multiply(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok, const Weights& w,
                     const Stretch& stretch) noexcept {
  constexpr size_t n_panels = Dot::tile_panels, max_tokens = Dot::tile_tokens;
  using Few = std::conditional_t<Dot::streams_few_to != Cache::none, Streamed<Dot>, Dot>;
  size_t begin = 0;
  if (n_tok == 1) {  // stride 0: no next token's outputs to prefetch
    begin = multiply_streams<Dot, Groups, Dot::decode_panels, 1>(y, 0, x, n_tok, w, stretch);
  } else if (n_tok < least_streamed) {
    begin = multiply_streams<Dot, Groups, n_panels, max_tokens>(y, y_stride, x, n_tok, w, stretch);
  } else if (n_tok <= few_tokens<Dot>) {
    begin = multiply_streams<Few, Groups, n_panels, max_tokens>(y, y_stride, x, n_tok, w, stretch);
  }
  multiply_panels<Dot, Groups, n_panels, max_tokens>(y, y_stride, x, n_tok, w, stretch, begin);
}

// Columns go in stretches and tokens in passes, so that what all panels read stays in a part of the L2 cache
// beside the panels of a tile, and the weights come from memory once a pass. A few tokens go in one stretch.
constexpr size_t stretch_blocks = 96;
constexpr size_t pass_bytes = 288 * 1024;

// Tokens of a pass: the same for all passes, but for whole chunks.
inline size_t pass_tokens(size_t n_tok, size_t n_blocks) noexcept {
  const size_t token_bytes = std::min(std::max(size_t{1}, n_blocks), stretch_blocks) * quant::i8_block;
  const size_t n_chunks = quant::divided_up(n_tok, quant::i8_chunk);
  const size_t most = pass_bytes / token_bytes / quant::i8_chunk;  // chunks
  return even_tile(n_chunks, most) * quant::i8_chunk;
}

template <class Dot, class Groups>
inline void multiply_pass(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                          const Weights& w) noexcept {
  const size_t n_blocks = quant::i8_blocks(x.n_cols);
  const size_t step = n_tok <= few_tokens<Dot> ? std::max(size_t{1}, n_blocks) : stretch_blocks;
  size_t begin = 0;
  do {  // once where there are no columns: all sums are zero
    const size_t end = std::min(begin + step, n_blocks);
    multiply<Dot, Groups>(y, y_stride, x, n_tok, w, {begin, end});
    begin = end;
  } while (begin < n_blocks);
}

// multiply(Groups(), y, x, n_tok) for each pass.
template <class Multiply>
inline void for_each_pass(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                          quant::VariantI8 variant, Multiply multiply) noexcept {
  if (n_tok == 0) return;
  const size_t most = pass_tokens(n_tok, quant::i8_blocks(x.n_cols));
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

template <class Dot>
void matmul_i8(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
               const quant::PanelsI8& w, const void* next) noexcept {
  const Weights weights{w, static_cast<const std::int8_t*>(next)};
  for_each_pass(y, y_stride, x, n_tok, w.shape.variant,
                [&](auto groups, float* part, const quant::ActivationsI8& tokens, size_t n) {
                  multiply_pass<Dot, decltype(groups)>(part, y_stride, tokens, n, weights);
                });
}

}  // namespace
}  // namespace runnel::simd
