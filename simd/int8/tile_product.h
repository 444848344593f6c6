// The product of a tile: a few panels of packed int8 weights (quant/i8.h) with a few tokens' quantised
// activations (quant/activations.h). Each block of 32 inputs is summed exactly in int32 registers, by the
// instruction set's Dot; as the sum has begun at i8_base, one fused addition carries it into float sums, in
// the order that kernels.h lays down.
//
//   struct Dot {
//     static constexpr size_t tile_panels, tile_tokens;  // what fills the registers
//     static constexpr size_t decode_panels;             // read side by side for a single token
//     static constexpr size_t decode_ahead;              // bytes that it prefetches ahead; 0: it does not
//     static constexpr Cache streams_few_to;             // none: block() is only called with a BlockI8
//     static constexpr bool reads_split;                 // of the activations, not their codes
//     static constexpr CacheUse cache_use;               // may be missing
//     static constexpr size_t decode_page_lines;         // of a page, before it begins; may be missing
//     // Calls take(t, p, v, dots) once for each vector: i8_base + `lanes` dots of token t with the rows from
//     // v * lanes on of panel p.
//     // Block: BlockI8, or for a few tokens StreamedBlock.
//     template <size_t n_panels, size_t n_tok, class Block, class Steps, class Take>
//     static void block(const Block& block, Steps n_steps, Take take) noexcept;
//     // May be missing: where the sums of vector v of a panel's block start, if that depends on its weights
//     // alone; block() finds it in block.start(). w: the panel's codes from that block on.
//     template <class Steps>
//     static I32 start(const std::int8_t* w, size_t v, Steps n_steps) noexcept;
//     // May be missing. Adds blocks of the tile to y, whole groups of them, from its first on; returns the
//     // block where it stopped. If there are any, prefetches the next outputs meanwhile.
//     template <class Groups, size_t n_panels, size_t n_tok>
//     static size_t add_groups(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept;
//   };
#pragma once
#include <algorithm>

#include "simd/int8/tile.h"

namespace runnel::simd {
namespace {

template <class Dot>
concept StartsFromWeights = requires(const std::int8_t* w) {
  Dot::start(w, size_t{0}, WholeBlock());
};

template <class Dot>
constexpr CacheUse cache_use_of() noexcept {
  if constexpr (requires { Dot::cache_use; })
    return Dot::cache_use;
  else
    return {};
}

template <size_t n_panels, size_t n_tok>
using Sums = F32[n_tok][n_panels][panel_vecs];

// All of a token. Value by value: `= {}` becomes a loop over memory.
template <size_t n_panels>
inline void fill_token(F32 (&sums)[n_panels][panel_vecs], F32 value) noexcept {
  RUNNEL_UNROLL
  for (size_t p = 0; p < n_panels; ++p) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) sums[p][v] = value;
  }
}
template <size_t n_panels, size_t n_tok, class OfToken>
inline void fill(Sums<n_panels, n_tok>& sums, OfToken of_token) noexcept {
  RUNNEL_UNROLL
  for (size_t t = 0; t < n_tok; ++t) fill_token<n_panels>(sums[t], of_token(t));
}

// The two variants of the weights.
struct WideGroups {
  static constexpr size_t blocks = quant::i8_group_blocks;
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
constexpr size_t fetch_tokens = 2;  // and the outputs of so many tokens of the next tile
inline size_t n_fetches(const Stretch& stretch) noexcept {
  return quant::divided_up(stretch.end - stretch.begin, fetch_blocks);
}

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
  const std::int32_t* starts = nullptr;  // of its blocks and panels (Starts)

  bool is_first() const noexcept { return stretch.begin == 0; }
  bool is_last() const noexcept { return stretch.end == quant::i8_blocks(x.n_cols); }
  size_t end_whole() const noexcept { return std::min(stretch.end, x.n_cols / quant::i8_block); }
  // Of the last block, where it is not whole.
  size_t last_steps() const noexcept {
    return quant::divided_up(x.n_cols % quant::i8_block, quant::i8_step_cols);
  }
  BlockI8 block(size_t b) const noexcept {
    const size_t place = x.place(b);
    return {codes + b * block_bytes,   codes_stride, x.codes + place * quant::i8_block, x.offsets + place,
            ahead + fetched_before(b), ahead_step};
  }
  // As Dot reads it.
  template <class Dot>
  BlockI8 block_for(size_t b) const noexcept {
    BlockI8 result = block(b);
    if constexpr (Dot::reads_split) result.x = x.split + x.place(b) * quant::i8_split;
    if constexpr (StartsFromWeights<Dot>) result.starts = starts + (b - stretch.begin) * panel_rows;
    return result;
  }
  // By the steps of streamed blocks, in bytes of each of the next panels.
  size_t fetched_before(size_t b) const noexcept { return (b - stretch.begin) * block_steps * ahead_step; }
  // By the whole tile, in either way.
  size_t fetched() const noexcept {
    return n_fetches(stretch) * ahead_lines * line_bytes + fetched_before(stretch.end);
  }
  // In every lane.
  F32 x_scale(size_t t, size_t b) const noexcept { return F32(x.scales[x.place(b) + t]); }
  F32 x_base(size_t t, size_t b) const noexcept { return F32(x.bases[x.place(b) + t]); }
  F32 x_group_base(size_t t, size_t begin) const noexcept { return F32(x.group_bases[x.place(begin) + t]); }
  template <class Groups>
  F32 w_scale(size_t p, size_t v, size_t group) const noexcept {
    return Groups::load_scale(scales + p * scales_stride + group * panel_rows + v * lanes);
  }
};

// Some of the panels that come next from memory into the L2 cache.
template <size_t n_panels, size_t n_tok>
[[gnu::always_inline]] inline void fetch_panels_ahead(const Tile& tile, size_t b) noexcept {
  if constexpr (n_tok > 1) {
    const std::int8_t* at =
        tile.ahead + (b - tile.stretch.begin) / fetch_blocks * tile.ahead_lines * line_bytes;
    for (size_t i = 0; i < tile.ahead_lines; ++i, at += line_bytes) {
      RUNNEL_UNROLL
      for (size_t p = 0; p < n_panels; ++p) prefetch_l2(at + p * tile.codes_stride);
    }
  }
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

// What comes next, a little with each few blocks: many lines at once would wait for each other, and the
// products for them. Short rows, whose outputs are few, leave some of those out.
template <size_t n_panels, size_t n_tok>
[[gnu::always_inline]] inline void fetch_ahead(const Tile& tile, const NextOutputs& next, size_t b) noexcept {
  fetch_panels_ahead<n_panels, n_tok>(tile, b);
  constexpr size_t n = std::min(fetch_tokens, n_tok);
  const size_t begin = (b - tile.stretch.begin) / fetch_blocks * n;
  if (begin >= n_tok) return;
  RUNNEL_UNROLL
  for (size_t t = 0; t < n; ++t) next.fetch<n_panels>(begin + t);
}

// The first lines of the page that each panel's codes enter next, half a kilobyte after block b or later: the
// processor's own prefetchers stop where a page ends, and take some misses to go on in the next.
constexpr size_t page_bytes = 4096, page_ahead = 512;
template <class Dot, size_t n_panels, size_t n_tok>
[[gnu::always_inline]] inline void fetch_pages_ahead(const Tile& tile, size_t b) noexcept {
  if constexpr (n_tok == 1 && requires { Dot::decode_page_lines; }) {
    const auto codes = reinterpret_cast<std::uintptr_t>(tile.codes) + b * block_bytes + page_ahead;
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      const auto page = quant::filled_up(codes + p * tile.codes_stride, page_bytes);
      RUNNEL_UNROLL
      for (size_t i = 0; i < Dot::decode_page_lines; ++i)
        prefetch_l2(reinterpret_cast<const void*>(page + i * line_bytes));
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

template <class Dot, size_t n_panels, size_t n_tok, class Steps, class Take>
inline void multiply_block(const Tile& tile, size_t b, Steps n_steps, Take take) noexcept {
  const BlockI8 block = tile.block_for<Dot>(b);
  if constexpr (n_tok == 1 && Dot::decode_ahead != 0) fetch_weights_ahead<Dot::decode_ahead, n_panels>(block);
  Dot::template block<n_panels, n_tok>(block, n_steps, take);
}

// The sums of a tile over all blocks from `first` on, but for the carried entries.
template <class Dot, size_t n_panels, size_t n_tok>
inline void add_blocks(WideGroups, Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next,
                       size_t first) noexcept {
  const size_t end_whole = tile.end_whole();
  for (size_t begin = first; begin < tile.stretch.end; begin += WideGroups::blocks) {
    Sums<n_panels, n_tok> part;
    fill<n_panels, n_tok>(part, [&](size_t t) { return tile.x_group_base(t, begin); });
    fetch_pages_ahead<Dot, n_panels, n_tok>(tile, begin);
    fetch_ahead<n_panels, n_tok>(tile, next, begin);
    const auto add = [&](size_t b, auto n_steps) {
      multiply_block<Dot, n_panels, n_tok>(tile, b, n_steps, [&](size_t t, size_t p, size_t v, F32 dots) {
        part[t][p][v] = fmadd(dots, tile.x_scale(t, b), part[t][p][v]);
      });
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
inline void add_blocks(NarrowGroups, Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next,
                       size_t first) noexcept {
  const auto add = [&](size_t b, auto n_steps) {
    multiply_block<Dot, n_panels, n_tok>(tile, b, n_steps, [&](size_t t, size_t p, size_t v, F32 dots) {
      const F32 in_floats = scaled(dots, tile.x_scale(t, b), tile.x_base(t, b));
      y[t][p][v] = fmadd(in_floats, tile.w_scale<NarrowGroups>(p, v, b), y[t][p][v]);
    });
  };
  const size_t end_whole = tile.end_whole();
  for (size_t begin = first; begin < end_whole; begin += fetch_blocks) {
    fetch_pages_ahead<Dot, n_panels, n_tok>(tile, begin);
    fetch_ahead<n_panels, n_tok>(tile, next, begin);
    for (size_t b = begin; b < std::min(begin + fetch_blocks, end_whole); ++b) add(b, WholeBlock());
  }
  if (end_whole < tile.stretch.end) add(end_whole, tile.last_steps());
}

// Where the sums of a tile's blocks start, found once for all tokens that meet its panels: nothing where Dot
// does not find it from weights.
template <class Dot, size_t n_panels>
class Starts {
 public:
  void find(Tile&) noexcept {}
};
template <StartsFromWeights Dot, size_t n_panels>
class Starts<Dot, n_panels> {
  static constexpr size_t max_blocks = CacheUse().stretch_blocks;
  static_assert(cache_use_of<Dot>().stretch_blocks == max_blocks);

 public:
  void find(Tile& tile) noexcept {
    const size_t end_whole = tile.end_whole();
    for (size_t b = tile.stretch.begin; b < end_whole; ++b) find_block(tile, b, WholeBlock());
    if (end_whole < tile.stretch.end) find_block(tile, end_whole, tile.last_steps());
    tile.starts = starts_[0][0];
  }

 private:
  template <class Steps>
  void find_block(const Tile& tile, size_t b, Steps n_steps) noexcept {
    RUNNEL_UNROLL
    for (size_t p = 0; p < n_panels; ++p) {
      const std::int8_t* const w = tile.codes + p * tile.codes_stride + b * block_bytes;
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        Dot::start(w, v, n_steps).store_aligned(starts_[p][b - tile.stretch.begin] + v * lanes);
      }
    }
  }

  alignas(line_bytes) std::int32_t starts_[n_panels][max_blocks][panel_rows];
};

template <class Dot, class Groups, size_t n_panels, size_t n_tok>
inline void add_all_blocks(Sums<n_panels, n_tok>& y, const Tile& tile, const NextOutputs& next) noexcept {
  size_t first = tile.stretch.begin;
  if constexpr (requires { Dot::template add_groups<Groups, n_panels, n_tok>(y, tile, next); }) {
    first = Dot::template add_groups<Groups, n_panels, n_tok>(y, tile, next);
  }
  add_blocks<Dot, n_panels, n_tok>(Groups(), y, tile, next, first);
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
    fill<n_panels, n_tok>(sums, [](size_t) { return F32(0.0f); });
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

}  // namespace
}  // namespace runnel::simd
