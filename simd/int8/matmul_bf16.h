// The product of int8 weights with activations in bf16 (quant/activations.h), by AMX. Sums of int8 products
// would have to leave the tile registers after each 32 inputs, to meet their scales. Here weights become
// bf16, scales and all, two panels at a time, and sums stay in the tiles while the inputs of a stretch pass:
// a tile instruction multiplies 32 inputs of 16 tokens with those of 16 rows. While the tiles are multiplied
// with some weights, the vector unit, which is free then, makes bf16 of the next ones, and takes the last
// tiles' sums to the outputs.
#pragma once
#include <algorithm>
#include <utility>

#include "simd/int8/widen_bf16.h"
#include "simd/tiles.h"

namespace runnel::simd {
namespace {

// Fewer tokens are multiplied in int8 sooner than weights become bf16 (tests/bench/experiments.md).
constexpr size_t least_tokens_bf16 = 48;

constexpr size_t bf16_panels = 2;  // side by side
constexpr size_t bf16_rows = bf16_panels * panel_rows;
constexpr size_t bf16_tiles = quant::i8_chunk / tile_rows;  // of tokens at a time: a chunk
constexpr size_t bf16_pass = 6 * quant::i8_chunk;           // tokens whose inputs stay in the L2 cache
static_assert(quant::bf16_tile == tile_rows && quant::i8_block * sizeof(BF16) == tile_row_bytes);

// The weights of a portion: two panels, or one, by a stretch of blocks.
constexpr size_t bf16_stretch = 64;
using WeightsOfPortion = TileOfWeights[bf16_panels][bf16_stretch];
static_assert(2 * sizeof(WeightsOfPortion) == bf16_scratch * sizeof(BF16));

struct Portion {
  size_t row, n_rows;  // none: it is behind the last one
  Stretch stretch;

  size_t n_panels() const noexcept { return quant::divided_up(n_rows, panel_rows); }
  size_t n_blocks() const noexcept { return stretch.end - stretch.begin; }
};

// The portions of a product: all rows by a stretch, then all rows by the next one.
class Portions {
 public:
  Portions(size_t n_rows, size_t n_blocks) noexcept
      : n_rows_(n_rows), n_blocks_(n_blocks), step_(even_tile(n_blocks, bf16_stretch)) {}
  Portion first() const noexcept { return at(0, 0); }
  Portion after(const Portion& p) const noexcept {
    const size_t row = p.row + p.n_rows;
    return row < n_rows_ ? at(row, p.stretch.begin) : at(0, p.stretch.end);
  }

 private:
  Portion at(size_t row, size_t begin) const noexcept {
    const size_t n_rows = begin < n_blocks_ ? std::min(bf16_rows, n_rows_ - row) : 0;
    return {row, n_rows, {begin, std::min(begin + step_, n_blocks_)}};
  }
  size_t n_rows_, n_blocks_, step_;
};

// Makes bf16 of a portion's weights, block by block.
template <class Weights>
class Widening {
 public:
  Widening(const Weights& from, const Portion& portion, WeightsOfPortion& to) noexcept
      : from_(from), portion_(portion), to_(to) {}
  size_t n_blocks() const noexcept { return portion_.n_panels() * portion_.n_blocks(); }
  void widen_block() noexcept {
    from_.widen(to_[panel_][at_], portion_.row + panel_ * panel_rows, portion_.stretch.begin + at_,
                portion_.stretch);
    if (++at_ == portion_.n_blocks()) {
      at_ = 0;
      ++panel_;
    }
  }

 private:
  const Weights& from_;
  const Portion portion_;
  WeightsOfPortion& to_;
  size_t panel_ = 0, at_ = 0;
};

// What the tiles of a chunk of tokens came to: [n_tok][bf16_rows], of which n_rows are used.
struct ChunkSums {
  alignas(line_bytes) float values[quant::i8_chunk][bf16_rows];
};

// Takes sums to the outputs, token by token.
class MovingSums {
 public:
  MovingSums() = default;
  MovingSums(const ChunkSums& from, float* y, size_t y_stride, size_t n_tok, size_t n_rows,
             bool adds) noexcept
      : from_(&from), y_(y), y_stride_(y_stride), left_(n_tok), n_rows_(n_rows), adds_(adds) {}
  void move(size_t n_tok) noexcept {
    const size_t end = at_ + std::min(n_tok, left_);
    left_ -= end - at_;
    for (; at_ < end; ++at_, y_ += y_stride_) {
      for (size_t r = 0; r < n_rows_; r += lanes) {
        const size_t n = std::min(lanes, n_rows_ - r);
        const F32 sums = load(from_->values[at_] + r);
        store_n(y_ + r, adds_ ? load_n(y_ + r, n) + sums : sums, n);
      }
    }
  }

 private:
  const ChunkSums* from_ = nullptr;
  float* y_ = nullptr;
  size_t y_stride_ = 0, left_ = 0, n_rows_ = 0, at_ = 0;
  bool adds_ = false;
};

// What the vector unit does while the tiles of a portion are multiplied, a little with each block.
template <class Weights>
class Meanwhile {
 public:
  // n_steps: calls of step(), for as many blocks of all chunks. later: what the caller reads after the last
  // portion, or null
  Meanwhile(Widening<Weights> next, size_t n_steps, MovingSums& sums, size_t tokens_a_step,
            const std::int8_t* later) noexcept
      : next_(next),
        n_next_(next.n_blocks()),
        n_steps_(n_steps),
        sums_(sums),
        tokens_a_step_(tokens_a_step),
        later_(later) {}
  [[gnu::noinline]] void step() noexcept {
    sums_.move(tokens_a_step_);
    for (due_ += n_next_; due_ >= n_steps_; due_ -= n_steps_) next_.widen_block();
    if (n_next_ == 0 && later_ != nullptr) {
      prefetch_l2(later_);
      later_ += line_bytes;
    }
  }

 private:
  Widening<Weights> next_;
  const size_t n_next_, n_steps_;
  size_t due_ = 0;
  MovingSums& sums_;
  const size_t tokens_a_step_;
  const std::int8_t* later_;
};

// Tiles of tokens by panels; of the tile registers 0 to 5 hold sums, 6 weights and 7 activations. Each
// activation is loaded twice at most.
template <size_t n_tiles, size_t n_panels, class Weights>
void multiply_tiles(ChunkSums& sums, const BF16* x, size_t x_block, const WeightsOfPortion& w,
                    size_t n_blocks, Meanwhile<Weights>& meanwhile) noexcept {
  const auto for_each_sum = [](auto f) {
    for_each_index<n_tiles>([&](auto t) { for_each_index<n_panels>([&](auto p) { f(t, p); }); });
  };
  for_each_sum([](auto t, auto p) { zero_tile<bf16_panels * t + p>(); });
  finish_stores();
  for (size_t b = 0; b < n_blocks; ++b) {
    const BF16* const block = x + b * x_block;
    meanwhile.step();
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
  for_each_sum([&](auto t, auto p) {
    store_tile<bf16_panels * t + p>(sums.values[t * tile_rows] + p * panel_rows, sizeof sums.values[0]);
  });
}

// Tokens whose inputs stay in the L2 cache, with all weights.
template <class Weights>
class PassBf16 {
 public:
  PassBf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok) noexcept
      : y_(y),
        y_stride_(y_stride),
        x_(x),
        n_tok_(n_tok),
        n_chunks_(quant::divided_up(x.first + n_tok, x.width)) {}

  // widened: room for the weights of two portions
  void multiply(const Weights& w, const std::int8_t* next, WeightsOfPortion* widened) noexcept {
    const Portions portions(w.n_rows(), quant::i8_blocks(x_.n_cols));
    Portion portion = portions.first();
    WeightsOfPortion *now = &widened[0], *then = &widened[1];
    Widening<Weights> first(w, portion, *now);
    for (size_t i = first.n_blocks(); i != 0; --i) first.widen_block();
    while (portion.n_rows != 0) {
      const Portion following = portions.after(portion);
      const size_t n_blocks = portion.n_blocks();
      Meanwhile<Weights> meanwhile({w, following, *then}, n_chunks_ * n_blocks, moving_,
                                   quant::divided_up(quant::i8_chunk, n_blocks), next);
      multiply(portion, *now, meanwhile);
      portion = following;
      std::swap(now, then);
    }
    moving_.move(quant::i8_chunk);
  }

 private:
  void multiply(const Portion& portion, const WeightsOfPortion& w, Meanwhile<Weights>& meanwhile) noexcept {
    const bool adds = portion.stretch.begin != 0;
    quant::ActivationsBf16 x = x_;
    float* y = y_ + portion.row;
    for (size_t left = n_tok_, n = 0; left != 0; left -= n, y += n * y_stride_, x = x.tokens(n)) {
      n = std::min(left, x.n_in_chunk());
      ChunkSums& sums = sums_[i_sums_];
      i_sums_ = 1 - i_sums_;
      with_constant<bf16_tiles>(quant::divided_up(n, tile_rows), [&](auto n_tiles) {
        with_constant<bf16_panels>(portion.n_panels(), [&](auto n_panels) {
          multiply_tiles<n_tiles, n_panels>(sums, x.block(portion.stretch.begin), x.width * quant::i8_block,
                                            w, portion.n_blocks(), meanwhile);
        });
      });
      moving_ = {sums, y, y_stride_, n, portion.n_rows, adds};
    }
  }

  float* const y_;
  const size_t y_stride_;
  const quant::ActivationsBf16 x_;
  const size_t n_tok_, n_chunks_;
  ChunkSums sums_[2];  // those of a chunk are moved while the next one's are made
  size_t i_sums_ = 0;
  MovingSums moving_;
};

size_t least_bf16() noexcept { return least_tokens_bf16; }

template <class Weights>
void multiply_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok, const Weights& w,
                   const void* next, BF16* scratch) noexcept {
  if (n_tok == 0) return;
  if (x.n_cols == 0) {
    for (size_t t = 0; t < n_tok; ++t) std::fill_n(y + t * y_stride, w.n_rows(), 0.0f);
    return;
  }
  TileShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) shapes.set(tile, tile_rows, tile_row_bytes);
  shapes.load();
  auto* const widened = reinterpret_cast<WeightsOfPortion*>(scratch);
  const auto* const later = static_cast<const std::int8_t*>(next);
  const size_t most = even_tile(quant::divided_up(n_tok, x.width), bf16_pass / quant::i8_chunk) * x.width;
  for (size_t t = 0; t < n_tok; t += most) {
    PassBf16<Weights> pass(y + t * y_stride, y_stride, x.tokens(t), std::min(most, n_tok - t));
    pass.multiply(w, later, widened);
  }
}

void matmul_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                 const quant::PanelsI8& w, const void* next, BF16* scratch) noexcept {
  if (w.shape.variant == quant::VariantI8::g32)
    multiply_bf16(y, y_stride, x, n_tok, PackedWeights<NarrowGroups>(w), next, scratch);
  else
    multiply_bf16(y, y_stride, x, n_tok, PackedWeights<WideGroups>(w), next, scratch);
}

void matmul_bf16_q8_0(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                      const BlockQ8_0* w, size_t n_rows, const void* next, BF16* scratch) noexcept {
  multiply_bf16(y, y_stride, x, n_tok, WeightsQ8_0(w, n_rows, quant::i8_blocks(x.n_cols)), next, scratch);
}

}  // namespace
}  // namespace runnel::simd
