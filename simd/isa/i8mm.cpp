// Int8 matrix products of ARMv8.6: one instruction multiplies 2 rows by 2 tokens over 8 inputs. For that, two
// steps of a panel have to be zipped into pairs of rows with 8 inputs each, which costs about as much as it
// saves unless many tokens share it: so a stretch of a panel is zipped once for all tokens of a call, whose
// sums wait in y from one stretch to the next. Few tokens are left to the dot products of ARMv8.2.
#include "simd/int8/attention_dots.h"
#include "simd/int8/dot_dotprod.h"
#include "simd/int8/factors_of_eights.h"
#include "simd/int8/matmul.h"
#include "simd/int8/peak.h"

namespace runnel::simd {
namespace {

constexpr size_t least_tokens = 8;
constexpr size_t tile_tokens = 4;
constexpr size_t n_pairs = tile_tokens / 2;
constexpr size_t zipped_blocks = 32;  // 16 KiB of weights, in the L1 cache
static_assert(zipped_blocks % WideGroups::blocks == 0);

// A stretch of a panel.
struct Zipped {
  // [block][pair of steps][row][8 inputs], zeros where there are no inputs.
  alignas(line_bytes) std::int8_t codes[zipped_blocks * block_bytes];
  // As the sums lie: each row's twice, first those of rows 0 and 1 of a vector, then those of rows 2 and 3.
  using Scales = F32[zipped_blocks][panel_vecs][2];
  Scales scales;
};

inline void zip_codes(Zipped& zipped, const std::int8_t* w, size_t n_cols) noexcept {
  const size_t n_steps = quant::divided_up(n_cols, quant::i8_step_cols);
  for (size_t step = 0; step < quant::i8_blocks(n_cols) * block_steps; step += 2) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) {
      const auto four = [&](size_t s) {
        return s < n_steps ? load_i32(w + s * quant::i8_step_bytes + v * lanes * quant::i8_step_cols)
                           : I32(0);
      };
      const int32x4x2_t both{{four(step), four(step + 1)}};
      vst2q_s32(
          reinterpret_cast<std::int32_t*>(zipped.codes + step * quant::i8_step_bytes + 2 * v * sizeof(I32)),
          both);
    }
  }
}

template <class Groups>
inline void zip_scales(Zipped& zipped, const std::uint16_t* scales, size_t n_cols) noexcept {
  constexpr size_t group_cols = Groups::blocks * quant::i8_block;
  for (size_t group = 0; group * group_cols < n_cols; ++group) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) {
      const F32 four = Groups::load_scale(scales + group * panel_rows + v * lanes);
      zipped.scales[group][v][0] = vzip1q_f32(four, four);
      zipped.scales[group][v][1] = vzip2q_f32(four, four);
    }
  }
}

// Numbers of 2 rows and 2 tokens: row 0 of both tokens, then row 1. The second of two has rows 2 and 3 of a
// vector.
using RowPairSums = F32[n_pairs][panel_vecs][2];

// All of a pair = of_pair(i).
template <class OfPair>
inline void fill(RowPairSums& sums, OfPair of_pair) noexcept {
  RUNNEL_UNROLL
  for (size_t i = 0; i < n_pairs; ++i) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) sums[i][v][0] = sums[i][v][1] = of_pair(i);
  }
}

// The inputs of a block: those of two tokens for two steps.
using PairInputs = int8x16_t[n_pairs][block_steps / 2];

inline void load_inputs(PairInputs& x, const BlockI8& block) noexcept {
  RUNNEL_UNROLL
  for (size_t i = 0; i < n_pairs; ++i) {
    RUNNEL_UNROLL
    for (size_t step = 0; step < block_steps; step += 4) {
      const int64x2_t x0 = vreinterpretq_s64_s8(vld1q_s8(block.inputs_from(2 * i, step)));
      const int64x2_t x1 = vreinterpretq_s64_s8(vld1q_s8(block.inputs_from(2 * i + 1, step)));
      x[i][step / 2] = vreinterpretq_s8_s64(vzip1q_s64(x0, x1));
      x[i][step / 2 + 1] = vreinterpretq_s8_s64(vzip2q_s64(x0, x1));
    }
  }
}

// y[i][v][half] = add(i, v, half, dots on their base). One vector of rows after the other, whose sums leave
// registers for the inputs.
template <class Add>
inline void add_row_pairs(RowPairSums& y, const BlockI8& block, Add add) noexcept {
  PairInputs x;
  load_inputs(x, block);
  RUNNEL_UNROLL
  for (size_t v = 0; v < panel_vecs; ++v) {
    int32x4_t dots[n_pairs][2];
    RUNNEL_UNROLL
    for (size_t i = 0; i < n_pairs; ++i) {
      dots[i][0] = sums_begin();
      dots[i][1] = sums_begin();
    }
    RUNNEL_UNROLL
    for (size_t step = 0; step < block_steps; step += 2) {
      end_of_step();
      RUNNEL_UNROLL
      for (size_t half = 0; half < 2; ++half) {
        const int8x16_t w = vld1q_s8(block.w + step * quant::i8_step_bytes + (2 * v + half) * sizeof(I32));
        RUNNEL_UNROLL
        for (size_t i = 0; i < n_pairs; ++i) dots[i][half] = vmmlaq_s32(dots[i][half], w, x[i][step / 2]);
      }
    }
    end_of_step();
    RUNNEL_UNROLL
    for (size_t half = 0; half < 2; ++half) {
      RUNNEL_UNROLL
      for (size_t i = 0; i < n_pairs; ++i) {
        y[i][v][half] = add(i, v, half, on_base(dots[i][half]));
        before_next_step(y[i][v][half]);
      }
    }
    end_of_step();
  }
}

// Numbers of tokens, as the sums lie.
struct OfPairs {
  F32 pairs[n_pairs];

  explicit OfPairs(const float* of_tokens) noexcept {
    RUNNEL_UNROLL
    for (size_t i = 0; i < n_pairs; ++i) {
      const float32x2_t two = vld1_f32(of_tokens + 2 * i);
      pairs[i] = vcombine_f32(two, two);
    }
  }
  F32 operator[](size_t i) const noexcept { return pairs[i]; }
};

// y += the stretch, whose last block is filled up with zeros.
inline void add_stretch(WideGroups, RowPairSums& y, const Tile& tile, const Zipped::Scales& scales) noexcept {
  const size_t n_blocks = tile.stretch.end;
  for (size_t begin = 0; begin < n_blocks; begin += WideGroups::blocks) {
    RowPairSums part;
    const OfPairs bases(tile.x.group_bases + tile.x.place(begin));
    fill(part, [&](size_t i) { return bases[i]; });
    for (size_t b = begin; b < std::min(begin + WideGroups::blocks, n_blocks); ++b) {
      const OfPairs x_scales(tile.x.scales + tile.x.place(b));
      add_row_pairs(part, tile.block(b), [&](size_t i, size_t v, size_t half, F32 dots) {
        return fmadd(dots, x_scales[i], part[i][v][half]);
      });
    }
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) {
      RUNNEL_UNROLL
      for (size_t half = 0; half < 2; ++half) {
        RUNNEL_UNROLL
        for (size_t i = 0; i < n_pairs; ++i)
          y[i][v][half] = fmadd(part[i][v][half], scales[begin / WideGroups::blocks][v][half], y[i][v][half]);
      }
    }
  }
}
inline void add_stretch(NarrowGroups, RowPairSums& y, const Tile& tile,
                        const Zipped::Scales& scales) noexcept {
  for (size_t b = 0; b < tile.stretch.end; ++b) {
    const OfPairs x_scales(tile.x.scales + tile.x.place(b)), x_bases(tile.x.bases + tile.x.place(b));
    add_row_pairs(y, tile.block(b), [&](size_t i, size_t v, size_t half, F32 dots) {
      return fmadd(fmadd(dots, x_scales[i], x_bases[i]), scales[b][v][half], y[i][v][half]);
    });
  }
}

// 4 tokens and 16 outputs. `whole` has all columns of the panel; part those of the stretch, whose codes and
// scales are zipped.
template <class Groups>
inline void multiply_stretch(float* y, size_t y_stride, const Tile& whole, const Tile& part,
                             const Zipped::Scales& scales, bool is_first, bool is_last) noexcept {
  RowPairSums sums;
  fill(sums, [](size_t) { return F32(0.0f); });
  if (!is_first) {
    RUNNEL_UNROLL
    for (size_t i = 0; i < n_pairs; ++i) {
      Sums<1, 2> two;
      load_rows<1>(two[0], y + 2 * i * y_stride, whole);
      load_rows<1>(two[1], y + (2 * i + 1) * y_stride, whole);
      RUNNEL_UNROLL
      for (size_t v = 0; v < panel_vecs; ++v) {
        sums[i][v][0] = vzip1q_f32(two[0][0][v], two[1][0][v]);
        sums[i][v][1] = vzip2q_f32(two[0][0][v], two[1][0][v]);
      }
    }
  }
  add_stretch(Groups(), sums, part, scales);
  F32 rows[tile_tokens][1][panel_vecs];
  RUNNEL_UNROLL
  for (size_t i = 0; i < n_pairs; ++i) {
    RUNNEL_UNROLL
    for (size_t v = 0; v < panel_vecs; ++v) {
      rows[2 * i][0][v] = vuzp1q_f32(sums[i][v][0], sums[i][v][1]);
      rows[2 * i + 1][0][v] = vuzp2q_f32(sums[i][v][0], sums[i][v][1]);
    }
  }
  for (size_t t = 0; t < tile_tokens; ++t) {
    store_rows<1>(y + t * y_stride, rows[t], whole);
    if (is_last) add_carried<Groups, 1>(y + t * y_stride, whole, t);
  }
}

// The blocks from `begin` on of the same tokens; nothing is carried.
inline quant::ActivationsI8 columns(quant::ActivationsI8 x, size_t begin, size_t n_cols) noexcept {
  const size_t skipped = begin * x.width;
  x.n_cols = n_cols;
  x.codes += skipped * quant::i8_block;
  x.scales += skipped;
  x.bases += skipped;
  x.group_bases += skipped;
  return x;
}

// All tokens against one stretch of a panel: n_cols columns from block `begin` on. Tokens that fill no tile
// are multiplied at the last stretch, with all columns.
template <class Groups>
inline void multiply_all_tokens(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                                const quant::PanelsI8& panel, const Zipped& zipped, size_t begin,
                                size_t n_cols) noexcept {
  const bool is_first = begin == 0;
  const bool is_last = begin * quant::i8_block + n_cols == x.n_cols;
  const size_t n_rows = panel.shape.n_rows;
  for (size_t t = 0; t < n_tok;) {
    Tile whole{panel.codes, panel.scales, 0, 0, x.tokens(t), {0, quant::i8_blocks(x.n_cols)}};
    size_t n = std::min(n_tok - t, whole.x.n_in_chunk());
    for (; n >= tile_tokens; n -= tile_tokens, t += tile_tokens) {
      const Tile part{
          zipped.codes, nullptr, 0, 0, columns(whole.x, begin, n_cols), {0, quant::i8_blocks(n_cols)}};
      with_whole_rows<tile_tokens, panel_rows>(
          y + t * y_stride, y_stride, n_rows, is_first, [&](float* rows, size_t stride) {
            multiply_stretch<Groups>(rows, stride, whole, part, zipped.scales, is_first, is_last);
          });
      whole.x = whole.x.tokens(tile_tokens);
    }
    if (is_last && n != 0) {
      float* rest = y + t * y_stride;
      multiply_chunk<DotSdot, Groups, 1, tile_tokens / 2>(rest, y_stride, whole, n, n_rows);
    }
    t += n;
  }
}

// All tokens against one panel, a stretch after the other.
template <class Groups>
inline void multiply_panel(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                           const quant::PanelsI8& panel) noexcept {
  constexpr size_t stretch_cols = zipped_blocks * quant::i8_block;
  size_t begin = 0;  // block
  do {               // once where there are no columns: all sums are zero
    const size_t n_cols = std::min(stretch_cols, x.n_cols - begin * quant::i8_block);
    Zipped zipped;
    zip_codes(zipped, panel.codes + begin * block_bytes, n_cols);
    zip_scales<Groups>(zipped, panel.scales + begin / Groups::blocks * panel_rows, n_cols);
    multiply_all_tokens<Groups>(y, y_stride, x, n_tok, panel, zipped, begin, n_cols);
    begin += zipped_blocks;
  } while (begin * quant::i8_block < x.n_cols);
}

template <class Groups>
inline void multiply_zipped(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                            const quant::PanelsI8& w) noexcept {
  for (size_t row = 0; row < w.shape.n_rows; row += panel_rows) {
    const size_t n_rows = std::min(panel_rows, w.shape.n_rows - row);
    multiply_panel<Groups>(y + row, y_stride, x, n_tok, w.rows(row, n_rows));
  }
}

void matmul_i8_smmla(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
                     const quant::PanelsI8& w, const void* next) noexcept {
  if (n_tok < least_tokens) return matmul_i8<DotSdot>(y, y_stride, x, n_tok, w, next);
  for_each_pass<DotSdot>(y, y_stride, x, n_tok, w.shape.variant,
                         [&](auto groups, float* part, const quant::ActivationsI8& tokens, size_t n) {
                           multiply_zipped<decltype(groups)>(part, y_stride, tokens, n, w);
                         });
}

}  // namespace

extern const Kernels kernels_i8mm;
const Kernels kernels_i8mm{.peak_i8 = peak_i8,
                           .reads_split_i8 = reads_split_i8<DotSdot>,
                           .least_raised_i8 = never_raised,
                           .matmul_i8 = matmul_i8_smmla,
                           .scores_i8 = scores_i8_dots<FactorsOfEights>,
                           .mix_i8 = mix_i8_dots<FactorsOfEights>};

}  // namespace runnel::simd
