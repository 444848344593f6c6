// F16 and BF16 weights into the panels that the product of int16 reads (quant/i16.h): 16 rows, two inputs
// after two.
#pragma once
#include <algorithm>

#include "quant/i16.h"
#include "simd/i16.h"

namespace runnel::simd {
namespace {

// A square is `lanes` rows of as many pairs of columns.
constexpr size_t pair_cols = 2 * lanes;
static_assert(quant::i16_block % pair_cols == 0);

// Where round_to_i16() leaves the columns of a pair of vectors: pairs of columns in ascending order.
constexpr size_t step_of_pair(size_t i) noexcept { return (i % 4 < 2 ? 0 : lanes / 2) + i / 4 * 2 + i % 2; }

// Up to 16 rows, and up to a group of their columns; is_whole: no less, which the compiler then knows.
template <class Format, bool is_whole>
struct GroupOfRows {
  using Element = typename Format::Element;
  const Element* w;
  size_t w_stride;
  size_t n_rows_there, n_cols_there;

  size_t n_rows() const noexcept { return is_whole ? panel_rows : n_rows_there; }
  size_t n_cols() const noexcept { return is_whole ? quant::i16_group : n_cols_there; }

  F32 load(size_t row, size_t col) const noexcept {
    const Element* const p = w + row * w_stride + col;
    if constexpr (is_whole) return Format::load(p);
    if (row >= n_rows() || col >= n_cols()) return F32(0.0f);
    return col + lanes <= n_cols() ? Format::load(p) : Format::load_n(p, n_cols() - col);
  }

  // Magnitudes are ordered as their bits are.
  void find_maxima(Element (&maxima)[panel_rows]) const noexcept {
    std::fill_n(maxima, panel_rows, Element{0});
    for (size_t r = 0; r < n_rows(); ++r) {
      const Element* const row = w + r * w_stride;
      Element max = 0;
      for (size_t c = 0; c < n_cols(); ++c) max = std::max(max, static_cast<Element>(row[c] & 0x7fff));
      maxima[r] = max;
    }
  }

  void find_scales(std::uint16_t* scales, float (&inverses)[panel_rows]) const noexcept {
    Element maxima[panel_rows];
    find_maxima(maxima);
    float values[panel_rows];
    for (size_t r = 0; r < panel_rows; r += lanes) store(values + r, Format::load(maxima + r));
    for (size_t r = 0; r < panel_rows; ++r) {
      const quant::ScaleI16 scale = quant::scale_i16(values[r]);
      scales[r] = scale.scale;
      inverses[r] = scale.inverse;
    }
  }

  // Rows [row, row + lanes) of pair_cols columns from col on. has_empty: there may be rows without codes,
  // which may have weights that are not finite. sums: of the columns' magnitudes in the rows that are looked
  // at, in the order of round_to_i16().
  template <bool has_empty>
  void pack_square(std::int16_t* codes, size_t row, size_t col, const float* inverses,
                   I16& sums) const noexcept {
    F32 square[lanes];
    RUNNEL_UNROLL for (size_t r = 0; r < lanes; ++r) {
      const F32 inverse(inverses[row + r]);
      // The next panel's, which most likely come next; nothing else tells the processor where it will go on.
      prefetch_l2(w + (panel_rows + row + r) * w_stride + col);
      const I16 rounded =
          has_empty && inverses[row + r] == 0.0f
              ? I16{}
              : round_to_i16(load(row + r, col) * inverse, load(row + r, col + lanes) * inverse);
      if (r % quant::i16_sum_step == 0) sums = add_magnitudes(sums, rounded);
      square[r] = as_floats(rounded);
    }
    transpose(square);
    RUNNEL_UNROLL for (size_t i = 0; i < lanes; ++i) {
      const size_t step = col / quant::i16_step_cols + step_of_pair(i);
      __builtin_memcpy(codes + (step * panel_rows + row) * quant::i16_step_cols, &square[i],
                       sizeof square[i]);
    }
  }
  // Returns whether the codes are precise enough.
  template <bool has_empty>
  bool pack_squares(std::int16_t* codes, const float* inverses) const noexcept {
    std::uint16_t sums[quant::i16_group];
    I16 least = broadcast_i16(-1);  // the largest without sign
    for (size_t col = 0; col < n_filled_up(); col += pair_cols) {
      I16 pair_sums{};
      for (size_t row = 0; row < panel_rows; row += lanes)
        pack_square<has_empty>(codes, row, col, inverses, pair_sums);
      least = smaller(least, pair_sums);
      __builtin_memcpy(sums + col, &pair_sums, sizeof pair_sums);
    }
    return smallest(least) >= quant::i16_least_sum || (is_precise(sums) && no_weights_are_lost(sums));
  }

  size_t n_filled_up() const noexcept { return quant::filled_up(n_cols(), quant::i16_block); }

  // Of columns that have codes.
  bool is_precise(const std::uint16_t* sums) const noexcept {
    std::int32_t error = 0;
    for (size_t i = 0; i < n_filled_up(); ++i) error += sums[i] == 0 ? 0 : quant::error_i16(sums[i]);
    return error <= static_cast<std::int32_t>(n_cols()) * quant::i16_error_units;
  }
  bool no_weights_are_lost(const std::uint16_t* sums) const noexcept {
    for (size_t i = 0; i < n_filled_up(); ++i) {
      const size_t in_pair = i % pair_cols;
      const size_t col = i - in_pair + 2 * step_of_pair(in_pair / 2) + in_pair % 2;
      for (size_t r = 0; sums[i] == 0 && col < n_cols() && r < n_rows(); r += quant::i16_sum_step) {
        if ((w[r * w_stride + col] & 0x7fff) != 0) return false;
      }
    }
    return true;
  }

  bool pack(std::int16_t* codes, std::uint16_t* scales) const noexcept {
    float inverses[panel_rows];
    find_scales(scales, inverses);
    bool has_empty = false;
    for (const float inverse : inverses) has_empty = has_empty || inverse == 0.0f;
    return has_empty ? pack_squares<true>(codes, inverses) : pack_squares<false>(codes, inverses);
  }
};

template <class Format>
bool pack_i16(const quant::MutablePanelsI16& out, const typename Format::Element* w,
              size_t w_stride) noexcept {
  bool is_precise = true;
  for (size_t r = 0; r < out.shape.n_rows; r += panel_rows) {
    const size_t n_rows = std::min(panel_rows, out.shape.n_rows - r);
    const quant::MutablePanelsI16 panel = out.rows(r, n_rows);
    for (size_t g = 0; g < panel.shape.n_groups(); ++g) {
      const size_t col = g * quant::i16_group, n_cols = std::min(quant::i16_group, panel.shape.n_cols - col);
      const auto* const from = w + r * w_stride + col;
      std::int16_t* const codes = panel.codes + col * panel_rows;
      std::uint16_t* const scales = panel.scales + g * panel_rows;
      const bool is_group_precise =
          n_rows == panel_rows && n_cols == quant::i16_group
              ? GroupOfRows<Format, true>{from, w_stride, n_rows, n_cols}.pack(codes, scales)
              : GroupOfRows<Format, false>{from, w_stride, n_rows, n_cols}.pack(codes, scales);
      is_precise = is_precise && is_group_precise;
    }
  }
  return is_precise;
}

}  // namespace
}  // namespace runnel::simd
