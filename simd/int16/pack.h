// F16 and BF16 weights into the panels that the product of int16 reads (quant/i16.h): 16 rows, two inputs
// after two.
#pragma once
#include <algorithm>

#include "quant/i16.h"
#include "simd/i16.h"
#include "simd/int8/vocabulary.h"

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
  using Sums = I16[quant::i16_group / pair_cols];
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
  static I16 magnitudes(const Element* p) noexcept { return load_i32(p) & I32(0x7fff7fff); }
  // Of a row, the largest in every `pair_cols`-th column.
  I16 max_magnitudes(size_t row) const noexcept {
    I16 max{};
    if (row >= n_rows()) return max;
    const Element* const p = w + row * w_stride;
    const size_t n_full = n_cols() / pair_cols * pair_cols;
    for (size_t c = 0; c < n_full; c += pair_cols) max = larger(max, magnitudes(p + c));
    if (n_full == n_cols()) return max;
    Element rest[pair_cols] = {};
    std::copy_n(p + n_full, n_cols() - n_full, rest);
    return larger(max, magnitudes(rest));
  }
  // The next functions are for rows [row, row + lanes).
  void find_maxima(Element (&maxima)[lanes], size_t row) const noexcept {
    F32 rows[lanes];
    RUNNEL_UNROLL for (size_t r = 0; r < lanes; ++r) rows[r] = as_floats(max_magnitudes(row + r));
    const I32 two(merged_maxima(rows));  // of each row
    narrow_to_i16(reinterpret_cast<std::int16_t*>(maxima), xsimd::max(two & I32(0xffff), two >> 16));
  }
  // Lane i: the largest of rows[i]. Of each two vectors one remains, whose lanes are the larger ones of
  // either.
  template <size_t square = 1, size_t n>
  static I16 merged_maxima(F32 (&rows)[n]) noexcept {
    if constexpr (n == 1) {
      return as_i16(rows[0]);
    } else {
      F32 half[n / 2];
      RUNNEL_UNROLL for (size_t i = 0; i < n / 2; ++i) {
        swap_squares<square>(rows[2 * i], rows[2 * i + 1], std::make_index_sequence<lanes>());
        half[i] = as_floats(larger(as_i16(rows[2 * i]), as_i16(rows[2 * i + 1])));
      }
      return merged_maxima<2 * square>(half);
    }
  }

  // Returns whether there may be rows without codes, which may have weights that are not finite.
  bool find_scales(std::uint16_t* scales, float (&inverses)[lanes], size_t row) const noexcept {
    Element maxima[lanes];
    find_maxima(maxima, row);
    float values[lanes];
    store(values, Format::load(maxima));
    for (size_t r = 0; r < lanes; ++r) {
      const quant::ScaleI16 scale = quant::scale_i16(values[r]);
      scales[row + r] = scale.scale;
      inverses[r] = scale.inverse;
    }
    return std::find(inverses, inverses + lanes, 0.0f) != inverses + lanes;
  }

  // pair_cols columns from col on. sums: of the columns' magnitudes in the rows that are looked at, in the
  // order of round_to_i16().
  template <bool has_empty>
  void pack_square(std::int16_t* codes, size_t row, size_t col, const float (&inverses)[lanes],
                   I16& sums) const noexcept {
    F32 square[lanes];
    RUNNEL_UNROLL for (size_t r = 0; r < lanes; ++r) {
      const F32 inverse(inverses[r]);
      // The next panel's, which most likely come next; nothing else tells the processor where it will go on.
      prefetch_l2(w + (panel_rows + row + r) * w_stride + col);
      const I16 rounded =
          has_empty && inverses[r] == 0.0f
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
  template <bool has_empty>
  void pack_squares(std::int16_t* codes, size_t row, const float (&inverses)[lanes],
                    Sums& sums) const noexcept {
    for (size_t i = 0; i < n_vectors(); ++i)
      pack_square<has_empty>(codes, row, i * pair_cols, inverses, sums[i]);
  }

  size_t n_filled_up() const noexcept { return quant::filled_up(n_cols(), quant::i16_block); }
  size_t n_vectors() const noexcept { return n_filled_up() / pair_cols; }

  // Of columns that have codes.
  bool error_is_small(const std::uint16_t* sums) const noexcept {
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

  // Whether the codes are precise enough.
  bool is_precise(const Sums& sums) const noexcept {
    I16 least = sums[0];
    for (size_t i = 1; i < n_vectors(); ++i) least = smaller(least, sums[i]);
    if (smallest(least) >= quant::i16_least_sum) return true;
    std::uint16_t numbers[quant::i16_group];
    __builtin_memcpy(numbers, sums, sizeof numbers);
    return error_is_small(numbers) && no_weights_are_lost(numbers);
  }

  // Returns whether the codes are precise enough. As many rows at a time as a vector has lanes: of those that
  // lie 4 or 8 KB apart, and so in the same few lines of the L1 cache, AVX2's processors keep eight there.
  bool pack(std::int16_t* codes, std::uint16_t* scales) const noexcept {
    Sums sums;
    RUNNEL_UNROLL for (I16& vector : sums) vector = I16{};
    for (size_t row = 0; row < panel_rows; row += lanes) {
      float inverses[lanes];
      if (find_scales(scales, inverses, row))
        pack_squares<true>(codes, row, inverses, sums);
      else
        pack_squares<false>(codes, row, inverses, sums);
    }
    return is_precise(sums);
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
