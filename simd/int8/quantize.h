// Activations to int8, their outliers carried in float (quant/activations.h). A row is read twice from the L1
// cache: for the maxima of its blocks, and to round it. Only blocks whose maximum is above the threshold are
// looked at closer. Meanwhile the next row is prefetched.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "simd/int8/row_blocks.h"
#include "simd/int8/split.h"
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// The largest of n numbers >= 0 that are at most `limit`, of which there are some.
inline float largest_up_to(const float* m, size_t n, float limit) noexcept {
  const auto limit_bits = std::bit_cast<std::int32_t>(limit);
  std::int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(m[i]);
    largest = bits <= limit_bits && bits > largest ? bits : largest;
  }
  return std::bit_cast<float>(largest);
}

// The (n - 1) / 2-th of n >= 1 finite numbers >= 0 in ascending order. Their bits are ordered as they are, so
// that halving what lies between the least and the largest ends at it, mostly soon: between it and the next.
inline float lower_median(const float* m, size_t n) noexcept {
  const size_t below = (n - 1) / 2;
  auto low = std::bit_cast<std::int32_t>(m[0]);
  std::int32_t high = low;
  for (size_t i = 1; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(m[i]);
    low = bits < low ? bits : low;
    high = bits > high ? bits : high;
  }
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    const size_t count = count_up_to(m, n, std::bit_cast<float>(middle));
    if (count == below + 1) return largest_up_to(m, n, std::bit_cast<float>(middle));
    if (count > below) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return std::bit_cast<float>(low);
}

// The carried entries of a row while they are chosen: the `max` largest, of equals the first.
class Carried {
 public:
  Carried(quant::CarriedEntry* entries, size_t max) noexcept : entries_(entries), max_(max) {}

  void offer(size_t index, float value) noexcept {
    const quant::CarriedEntry entry{static_cast<std::uint32_t>(index), value};
    if (count_ < max_) {
      entries_[count_++] = entry;
      if (count_ == max_) find_least();
      return;
    }
    if (!(magnitude(entry) > magnitude(entries_[least_]))) return;
    for (size_t i = least_; i + 1 < count_; ++i) entries_[i] = entries_[i + 1];
    entries_[count_ - 1] = entry;
    find_least();
  }
  size_t count() const noexcept { return count_; }

 private:
  static float magnitude(const quant::CarriedEntry& entry) noexcept { return __builtin_fabsf(entry.value); }
  void find_least() noexcept {
    least_ = 0;
    for (size_t i = 1; i < count_; ++i) {
      if (magnitude(entries_[i]) <= magnitude(entries_[least_])) least_ = i;
    }
  }

  quant::CarriedEntry* entries_;
  size_t max_;
  size_t count_ = 0;
  size_t least_ = 0;  // the smallest entry, of equals the last, once there are max_
};

// Writes the maxima of all blocks; false if a number is none, or too large.
inline bool find_maxima(float* maxima, const float* x, size_t n_cols) noexcept {
  const size_t n_full = n_cols / quant::i8_block;
  std::uint32_t largest = 0;
  for (size_t b = 0; b < quant::i8_blocks(n_cols); ++b) {
    const float* block = x + b * quant::i8_block;
    const std::uint32_t bits = b < n_full ? max_magnitude_bits(block)
                                          : max_magnitude_bits(FullBlock(block, block_size(n_cols, b)).x);
    maxima[b] = std::bit_cast<float>(bits);
    largest = bits > largest ? bits : largest;
  }
  return largest < std::bit_cast<std::uint32_t>(quant::i8_beyond);
}

// Those above `ratio` times the lower median of the maxima.
inline size_t choose_carried(quant::CarriedEntry* entries, const float* x, size_t n_cols, const float* maxima,
                             float ratio) noexcept {
  const size_t n_blocks = quant::i8_blocks(n_cols);
  const float threshold = ratio * lower_median(maxima, n_blocks);
  Carried carried(entries, quant::i8_max_carried(n_cols));
  for (size_t b = 0; b < n_blocks; ++b) {
    if (!(maxima[b] > threshold)) continue;
    const FullBlock block(x + b * quant::i8_block, block_size(n_cols, b));
    for (std::uint32_t left = above(block.x, threshold); left != 0; left &= left - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(left));
      carried.offer(b * quant::i8_block + i, block.x[i]);
    }
  }
  return carried.count();
}

// What a row becomes: the largest code, from where on an entry is carried, and how 32 codes are written to
// their place.
template <class Code>
struct CodesOf;
template <>
struct CodesOf<std::int8_t> {
  static constexpr float most = quant::int8_most;
  static constexpr float carry_ratio = quant::i8_carry_ratio;
  static void round(const quant::ActivationsI8& out, size_t place, const float* x, float factor) noexcept {
    std::int8_t* const codes = out.codes + place * quant::i8_block;
    const std::int32_t sum = round_block(codes, x, factor, out.zero());
    out.offsets[place] =
        quant::i8_base_bits +
        (out.split == nullptr ? -128 * sum : split_block(out.split + place * quant::i8_split, codes));
  }
  static void clear(const quant::ActivationsI8& out, size_t place) noexcept {
    std::memset(out.codes + place * quant::i8_block, out.zero(), quant::i8_block);
    if (out.split != nullptr) std::memset(out.split + place * quant::i8_split, 0, quant::i8_split);
    out.offsets[place] = quant::i8_base_bits;
  }
  static void put_scale(const quant::ActivationsI8& out, size_t place, float quotient) noexcept {
    out.scales[place] = quant::i8_scale(quotient);
    out.bases[place] = -quant::i8_base * out.scales[place];
  }
  static void put_group_bases(const quant::ActivationsI8& out) noexcept {
    const size_t n_blocks = quant::i8_blocks(out.n_cols);
    for (size_t begin = 0; begin < n_blocks; begin += quant::i8_group_blocks) {
      const size_t end = std::min(begin + quant::i8_group_blocks, n_blocks);
      float sum = out.bases[out.place(begin)];
      for (size_t b = begin + 1; b < end; ++b) sum += out.bases[out.place(b)];
      out.group_bases[out.place(begin)] = sum;
    }
  }
};

template <class Code>
inline void clear_block(const quant::Activations<Code>& out, size_t b, float scale) noexcept {
  const size_t place = out.place(b);
  CodesOf<Code>::clear(out, place);
  CodesOf<Code>::put_scale(out, place, scale);
}

// One block of codes, from its numbers and their maximum.
template <class Code>
inline void quantize_block(const quant::Activations<Code>& out, size_t b, const float* x,
                           float max) noexcept {
  if (max < quant::i8_least_max) return clear_block(out, b, 0.0f);
  constexpr float most = CodesOf<Code>::most;
  const size_t place = out.place(b);
  CodesOf<Code>::put_scale(out, place, max / most);
  CodesOf<Code>::round(out, place, x, most / max);
}

template <class Code>
inline void poison(const quant::Activations<Code>& out) noexcept {
  for (size_t b = 0; b < quant::i8_blocks(out.n_cols); ++b)
    clear_block(out, b, std::numeric_limits<float>::quiet_NaN());
  CodesOf<Code>::put_group_bases(out);
  *out.n_carried = 0;
}

// next: the row that is read after x.
template <class Code>
inline void quantize_token(const quant::Activations<Code>& out, const float* x, const float* next) noexcept {
  *out.n_carried = 0;
  if (out.n_cols == 0) return;
  if (!find_maxima(out.maxima, x, out.n_cols)) return poison(out);
  const size_t n_carried = choose_carried(out.carried, x, out.n_cols, out.maxima, CodesOf<Code>::carry_ratio);
  *out.n_carried = static_cast<std::uint32_t>(n_carried);
  const size_t n_full = out.n_cols / quant::i8_block;
  size_t n_done = 0;  // of the carried entries
  for (size_t b = 0; b < quant::i8_blocks(out.n_cols); ++b) {
    const size_t begin = b * quant::i8_block;
    for (size_t i = 0; i < quant::i8_block; i += line_bytes / sizeof *next) prefetch(next + begin, i);
    const bool has_carried = n_done < n_carried && out.carried[n_done].index < begin + quant::i8_block;
    if (b < n_full && !has_carried) {
      quantize_block(out, b, x + begin, out.maxima[b]);
      continue;
    }
    FullBlock rest(x + begin, block_size(out.n_cols, b));
    for (; n_done < n_carried && out.carried[n_done].index < begin + quant::i8_block; ++n_done)
      rest.x[out.carried[n_done].index - begin] = 0.0f;
    quantize_block(out, b, rest.x, std::bit_cast<float>(max_magnitude_bits(rest.x)));
  }
  CodesOf<Code>::put_group_bases(out);
}

template <class Code>
inline void quantize_rows(const quant::Activations<Code>& out, const float* x, size_t x_stride,
                          size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    const float* const row = x + t * x_stride;
    quantize_token(out.tokens(t), row, t + 1 < n_tok ? row + x_stride : row);
  }
}

void quantize_i8(const quant::ActivationsI8& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  quantize_rows(out, x, x_stride, n_tok);
}

}  // namespace
}  // namespace runnel::simd
