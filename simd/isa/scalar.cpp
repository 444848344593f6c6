// The specification: every kernel, as plainly as C++ says it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "quant/float16.h"
#include "simd/int8/quantize_vector.h"
#include "simd/kernels.h"

namespace runnel::simd {
namespace {

float same(float x) noexcept { return x; }

template <class T, float (*widen)(T)>
void matmul_few(float* y, size_t y_stride, const T* w, size_t n_rows, size_t n_cols, const float* x,
                size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < n_rows; ++r) {
      float sum = 0.0f;
      for (size_t c = 0; c < n_cols; ++c) sum += widen(w[r * n_cols + c]) * x[t * x_stride + c];
      y[t * y_stride + r] = sum;
    }
  }
}
constexpr auto matmul_few_f32 = matmul_few<float, same>;
constexpr auto matmul_few_f16 = matmul_few<F16, quant::f16_to_f32>;
constexpr auto matmul_few_bf16 = matmul_few<BF16, quant::bf16_to_f32>;
size_t most_few(size_t) noexcept { return 3; }

void matvec_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  constexpr size_t size = quant::BlockQ8_0::size;
  const size_t n_blocks = n_cols / size;
  for (size_t r = 0; r < n_rows; ++r) {
    float sum = 0.0f;
    for (size_t b = 0; b < n_blocks; ++b) {
      const quant::BlockQ8_0& block = w[r * n_blocks + b];
      float dot = 0.0f;
      for (size_t i = 0; i < size; ++i) dot += static_cast<float>(block.qs[i]) * x[b * size + i];
      sum += quant::f16_to_f32(block.d) * dot;
    }
    y[r] = sum;
  }
}

void f16_to_f32(float* y, const F16* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::f16_to_f32(x[i]);
}
void bf16_to_f32(float* y, const BF16* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::bf16_to_f32(x[i]);
}
void f32_to_f16(F16* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::f32_to_f16(x[i]);
}

template <class T, float (*widen)(T)>
void pack_panel(float* panel, const T* w, size_t w_stride, size_t n_rows, size_t n_cols) noexcept {
  for (size_t c = 0; c < n_cols; ++c) {
    for (size_t r = 0; r < panel_rows; ++r)
      panel[c * panel_rows + r] = r < n_rows ? widen(w[r * w_stride + c]) : 0.0f;
  }
}
constexpr auto pack_panel_f32 = pack_panel<float, same>;
constexpr auto pack_panel_f16 = pack_panel<F16, quant::f16_to_f32>;
constexpr auto pack_panel_bf16 = pack_panel<BF16, quant::bf16_to_f32>;

void matmul_panels(float* y, size_t y_stride, bool adds, const float* x, size_t x_stride, size_t n_tok,
                   const float* panels, size_t n_rows, size_t n_cols) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < n_rows; ++r) {
      const float* panel = panels + r / panel_rows * n_cols * panel_rows;
      float sum = adds ? y[t * y_stride + r] : 0.0f;
      for (size_t c = 0; c < n_cols; ++c) sum += x[t * x_stride + c] * panel[c * panel_rows + r % panel_rows];
      y[t * y_stride + r] = sum;
    }
  }
}

std::uint64_t read_words(const std::uint64_t* p, size_t n, size_t, size_t) noexcept {
  std::uint64_t all = 0;
  for (size_t i = 0; i < n; ++i) all ^= p[i];
  return all;
}

// Ones that the compiler does not know: it would do away with the loop. Several sums, as each addition waits
// for the one before it.
template <class T, class Sum>
std::uint64_t peak(size_t n) noexcept {
  constexpr size_t n_sums = 32;
  const volatile T one = 1;
  T ones[n_sums];
  Sum sums[n_sums] = {};
  for (T& x : ones) x = one;
  for (size_t i = 0; i < n; ++i) {
    const T x = one;
    for (size_t j = 0; j < n_sums; ++j) sums[j] += static_cast<Sum>(x) * static_cast<Sum>(ones[j]);
  }
  std::uint64_t total = 0;
  for (const Sum sum : sums) total += static_cast<std::uint64_t>(sum);
  return total;
}
std::uint64_t peak_f32(size_t n) noexcept { return peak<float, float>(n); }
std::uint64_t peak_i8(size_t n) noexcept { return peak<std::int8_t, std::int32_t>(n); }
std::uint64_t peak_i16(size_t n) noexcept { return peak<std::int16_t, std::int32_t>(n); }

// ---- int8

std::uint32_t magnitude_bits(float x) noexcept { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

// The (n - 1) / 2-th of the numbers in ascending order.
float lower_median(const float* m, size_t n) noexcept {
  float median = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < n; ++i) {
    const auto n_below = std::count_if(m, m + n, [&](float other) { return other <= m[i]; });
    if (static_cast<size_t>(n_below) > (n - 1) / 2) median = std::min(median, m[i]);
  }
  return median;
}

// Carries the entries above the threshold, of too many the largest: at each one that is too much, the
// smallest of them all goes, the last among equals.
std::uint32_t choose_carried(quant::CarriedEntry* carried, const float* x, size_t n,
                             float threshold) noexcept {
  const auto smaller = [](const quant::CarriedEntry& a, const quant::CarriedEntry& b) {
    return std::fabs(a.value) < std::fabs(b.value);
  };
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(std::fabs(x[i]) > threshold)) continue;
    const quant::CarriedEntry candidate{static_cast<std::uint32_t>(i), x[i]};
    if (count == quant::i8_max_carried(n)) {
      size_t least = 0;
      for (size_t j = 1; j < count; ++j) {
        if (!smaller(carried[least], carried[j])) least = j;
      }
      if (!smaller(carried[least], candidate)) continue;
      std::copy(carried + least + 1, carried + count, carried + least);
      --count;
    }
    carried[count++] = candidate;
  }
  return static_cast<std::uint32_t>(count);
}

bool is_carried(const quant::CarriedEntry* carried, std::uint32_t count, size_t i) noexcept {
  return std::any_of(carried, carried + count, [&](const quant::CarriedEntry& c) { return c.index == i; });
}

// Codes up to `most`; entries above `ratio` times the lower median of the maxima of blocks are carried.
template <class Code>
void quantize_token(const quant::Activations<Code>& out, const float* x, float most, float ratio) noexcept {
  const size_t n = out.n_cols;
  const size_t n_blocks = quant::i8_blocks(n);
  bool finite = true;
  for (size_t b = 0; b < n_blocks; ++b) {
    std::uint32_t max = 0;
    for (size_t i = b * quant::i8_block; i < std::min(n, (b + 1) * quant::i8_block); ++i)
      max = std::max(max, magnitude_bits(x[i]));
    finite = finite && max < std::bit_cast<std::uint32_t>(quant::i8_beyond);
    out.maxima[b] = std::bit_cast<float>(max);
  }
  for (size_t b = 0; b < n_blocks; ++b) {
    const size_t place = out.place(b);
    std::fill_n(out.codes + place * quant::i8_block, quant::i8_block, Code{0});
    out.scales[place] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  *out.n_carried = 0;
  if (!finite) return;
  const std::uint32_t n_carried =
      choose_carried(out.carried, x, n, ratio * lower_median(out.maxima, n_blocks));
  *out.n_carried = n_carried;
  for (size_t b = 0; b < n_blocks; ++b) {
    const size_t begin = b * quant::i8_block;
    const size_t end = std::min(n, begin + quant::i8_block);
    float max = 0.0f;
    for (size_t i = begin; i < end; ++i) {
      if (!is_carried(out.carried, n_carried, i)) max = std::max(max, std::fabs(x[i]));
    }
    if (max < quant::i8_least_max) continue;
    const size_t place = out.place(b);
    Code* const codes = out.codes + place * quant::i8_block;
    out.scales[place] = max / most;
    const float inverse = most / max;
    for (size_t i = begin; i < end; ++i) {
      if (is_carried(out.carried, n_carried, i)) continue;
      codes[i - begin] = static_cast<Code>(std::nearbyint(x[i] * inverse));
    }
  }
}
void raise(std::int8_t* codes) noexcept {
  for (size_t i = 0; i < quant::i8_block; ++i) codes[i] = static_cast<std::int8_t>(codes[i] + 128);
}
// Where the sums of a block start, and its codes as they are read.
void prepare_sums(const quant::ActivationsI8& x, size_t b) noexcept {
  const size_t place = x.place(b);
  const std::int8_t* const codes = x.codes + place * quant::i8_block;
  std::int32_t sum = 0, negative = 0;
  for (size_t i = 0; i < quant::i8_block; ++i) {
    sum += codes[i];
    negative -= std::min<int>(codes[i], 0);
  }
  x.offsets[place] = quant::i8_base_bits + (x.split == nullptr ? -128 * sum : negative);
  if (x.raised) raise(x.codes + place * quant::i8_block);
  if (x.split == nullptr) return;
  std::int8_t* const magnitudes = x.split + place * quant::i8_split;
  for (size_t i = 0; i < quant::i8_block; ++i) {
    magnitudes[i] = static_cast<std::int8_t>(std::abs(codes[i]));
    magnitudes[quant::i8_block + i] = codes[i] < 0 ? -1 : 0;
  }
}
// x: one token.
void put_bases(const quant::ActivationsI8& x) noexcept {
  for (size_t b = 0; b < quant::i8_blocks(x.n_cols); ++b) {
    float& scale = x.scales[x.place(b)];
    float& group_base = x.group_bases[x.place(b / quant::i8_group_blocks * quant::i8_group_blocks)];
    scale = quant::i8_scale(scale);
    x.bases[x.place(b)] = -quant::i8_base * scale;
    group_base = b % quant::i8_group_blocks == 0 ? x.bases[x.place(b)] : group_base + x.bases[x.place(b)];
  }
}
void quantize_i8(const quant::ActivationsI8& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    const quant::ActivationsI8 row = out.tokens(t);
    quantize_token(row, x + t * x_stride, quant::int8_most, quant::i8_carry_ratio);
    for (size_t b = 0; b < quant::i8_blocks(row.n_cols); ++b) prepare_sums(row, b);
    put_bases(row);
  }
}

void pack_q8_0(const quant::MutablePanelsI8& out, const quant::BlockQ8_0* w) noexcept {
  const quant::ShapeI8& shape = out.shape;
  for (size_t r = 0; r < shape.n_panels() * panel_rows; ++r) {
    std::int8_t* codes =
        out.codes + r / panel_rows * shape.panel_codes() + r % panel_rows * quant::i8_step_cols;
    std::uint16_t* scales = out.scales + r / panel_rows * shape.panel_scales() + r % panel_rows;
    for (size_t b = 0; b < shape.n_groups(); ++b) {
      const quant::BlockQ8_0 block = r < shape.n_rows ? w[r * shape.n_groups() + b] : quant::BlockQ8_0{};
      scales[b * panel_rows] = block.d;
      for (size_t i = 0; i < quant::BlockQ8_0::size; i += quant::i8_step_cols, codes += quant::i8_step_bytes)
        std::copy_n(block.qs + i, quant::i8_step_cols, codes);
    }
  }
}

std::int32_t code_i8(const quant::PanelsI8& w, size_t r, size_t c) noexcept {
  return w.codes[r / 16 * w.shape.panel_codes() + c / 4 * 64 + r % 16 * 4 + c % 4];
}
float scale_i8(const quant::PanelsI8& w, size_t r, size_t c) noexcept {
  const std::uint16_t bits = w.scales[r / 16 * w.shape.panel_scales() + c / w.shape.group() * 16 + r % 16];
  return w.shape.variant == quant::VariantI8::g32 ? quant::f16_to_f32(bits) : quant::bf16_to_f32(bits);
}
// On its base. x: one token.
float dot_block_i8(const quant::PanelsI8& w, size_t r, const quant::ActivationsI8& x, size_t b) noexcept {
  const std::int8_t* const codes = x.codes + x.place(b) * quant::i8_block;
  const size_t begin = b * quant::i8_block;
  std::int32_t dot = 0;
  for (size_t c = begin; c < std::min(w.shape.n_cols, begin + quant::i8_block); ++c)
    dot += code_i8(w, r, c) * codes[c - begin];
  return quant::i8_base + static_cast<float>(dot);
}

float dot_row_i8(const quant::PanelsI8& w, size_t r, const quant::ActivationsI8& x) noexcept {
  float y = 0.0f;
  for (size_t begin = 0; begin < w.shape.n_cols; begin += w.shape.group()) {
    const size_t end = std::min(w.shape.n_cols, begin + w.shape.group());
    const float w_scale = scale_i8(w, r, begin);
    if (w.shape.variant == quant::VariantI8::g32) {
      const size_t b = begin / quant::i8_block;
      const float scaled = std::fma(dot_block_i8(w, r, x, b), x.scales[x.place(b)], x.bases[x.place(b)]);
      y = std::fma(scaled, w_scale, y);
      continue;
    }
    float part = x.group_bases[x.place(begin / quant::i8_block)];
    for (size_t b = begin / quant::i8_block; b * quant::i8_block < end; ++b)
      part = std::fma(dot_block_i8(w, r, x, b), x.scales[x.place(b)], part);
    y = std::fma(part, w_scale, y);
  }
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    const size_t c = x.carried[i].index;
    y = std::fma(x.carried[i].value, static_cast<float>(code_i8(w, r, c)) * scale_i8(w, r, c), y);
  }
  return y;
}
void matmul_i8(float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,
               const quant::PanelsI8& w, const void*) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < w.shape.n_rows; ++r) y[t * y_stride + r] = dot_row_i8(w, r, x.tokens(t));
  }
}
bool reads_split_i8() noexcept { return false; }
size_t least_raised_i8() noexcept { return std::numeric_limits<size_t>::max(); }

// ---- bf16

size_t least_bf16() noexcept { return std::numeric_limits<size_t>::max(); }

void round_bf16(const quant::ActivationsBf16& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    const float* const row = x + t * x_stride;
    const quant::ActivationsBf16 to = out.tokens(t);
    const bool is_finite = std::all_of(row, row + out.n_cols, [](float v) { return std::isfinite(v); });
    for (size_t c = 0; c < quant::i8_padded(out.n_cols); ++c) {
      const float value = c < out.n_cols ? row[c] : 0.0f;
      to.block(c / quant::i8_block)[c % quant::i8_block] =
          quant::f32_to_bf16(is_finite ? value : std::numeric_limits<float>::quiet_NaN());
    }
  }
}

// weight(c) of a row.
template <class Weight>
float dot_row_bf16(const quant::ActivationsBf16& x, Weight weight) noexcept {
  float y = 0.0f;
  for (size_t c = 0; c < x.n_cols; ++c) {
    y = std::fma(quant::bf16_to_f32(x.block(c / quant::i8_block)[c % quant::i8_block]),
                 quant::bf16_to_f32(quant::f32_to_bf16(weight(c))), y);
  }
  return y;
}
void matmul_bf16(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                 const quant::PanelsI8& w, const void*, BF16*) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < w.shape.n_rows; ++r)
      y[t * y_stride + r] = dot_row_bf16(
          x.tokens(t), [&](size_t c) { return static_cast<float>(code_i8(w, r, c)) * scale_i8(w, r, c); });
  }
}
void matmul_bf16_q8_0(float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,
                      const quant::BlockQ8_0* w, size_t n_rows, const void*, BF16*) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < n_rows; ++r)
      y[t * y_stride + r] = dot_row_bf16(x.tokens(t), [&](size_t c) {
        const quant::BlockQ8_0& block = w[r * quant::i8_blocks(x.n_cols) + c / quant::BlockQ8_0::size];
        return static_cast<float>(block.qs[c % quant::BlockQ8_0::size]) * quant::f16_to_f32(block.d);
      });
  }
}

// ---- int16

std::int32_t code_i16(const quant::PanelsI16& w, size_t r, size_t c) noexcept {
  return w.codes[r / 16 * w.shape.panel_codes() + c / 2 * 32 + r % 16 * 2 + c % 2];
}

// Of the columns [begin, end) of a panel, a group.
template <class T>
bool is_precise_i16(const quant::PanelsI16& panel, const T* w, size_t w_stride, size_t begin,
                    size_t end) noexcept {
  std::int32_t error = 0;
  for (size_t c = begin; c < end; ++c) {
    std::int32_t sum = 0;
    bool has_weights = false;
    for (size_t r = 0; r < panel.shape.n_rows; r += quant::i16_sum_step) {
      sum += std::abs(code_i16(panel, r, c));
      has_weights = has_weights || (w[r * w_stride + c] & 0x7fff) != 0;
    }
    if (sum == 0 && has_weights) return false;
    if (sum != 0) error += quant::error_i16(sum);
  }
  return error <= static_cast<std::int32_t>(end - begin) * quant::i16_error_units;
}

template <class T>
bool are_precise_i16(const quant::PanelsI16& panels, const T* w, size_t w_stride) noexcept {
  const quant::ShapeI16& shape = panels.shape;
  for (size_t r = 0; r < shape.n_rows; r += panel_rows) {
    const quant::PanelsI16 panel = panels.rows(r, std::min(panel_rows, shape.n_rows - r));
    for (size_t c = 0; c < shape.n_cols; c += quant::i16_group) {
      const size_t end = std::min(shape.n_cols, c + quant::i16_group);
      if (!is_precise_i16(panel, w + r * w_stride, w_stride, c, end)) return false;
    }
  }
  return true;
}

template <class T, float (*widen)(T)>
bool pack_i16(const quant::MutablePanelsI16& out, const T* w, size_t w_stride) noexcept {
  const quant::ShapeI16& shape = out.shape;
  std::fill_n(out.codes, shape.n_codes(), std::int16_t{0});
  std::fill_n(out.scales, shape.n_scales(), std::uint16_t{0});
  for (size_t r = 0; r < shape.n_rows; ++r) {
    const T* const row = w + r * w_stride;
    std::int16_t* const codes = out.codes + r / panel_rows * shape.panel_codes() + r % panel_rows * 2;
    std::uint16_t* const scales = out.scales + r / panel_rows * shape.panel_scales() + r % panel_rows;
    for (size_t begin = 0; begin < shape.n_cols; begin += quant::i16_group) {
      const size_t end = std::min(shape.n_cols, begin + quant::i16_group);
      T max = 0;  // magnitudes are ordered as their bits are
      for (size_t c = begin; c < end; ++c) max = std::max(max, static_cast<T>(row[c] & 0x7fff));
      const quant::ScaleI16 scale = quant::scale_i16(widen(max));
      scales[begin / quant::i16_group * panel_rows] = scale.scale;
      if (scale.inverse == 0.0f) continue;
      for (size_t c = begin; c < end; ++c) {
        codes[c / 2 * 2 * panel_rows + c % 2] =
            static_cast<std::int16_t>(std::nearbyint(widen(row[c]) * scale.inverse));
      }
    }
  }
  return are_precise_i16<T>({shape, out.codes, out.scales}, w, w_stride);
}
constexpr auto pack_i16_f16 = pack_i16<F16, quant::f16_to_f32>;
constexpr auto pack_i16_bf16 = pack_i16<BF16, quant::bf16_to_f32>;

void quantize_i16(const quant::ActivationsI16& out, const float* x, size_t x_stride, size_t n_tok) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    quantize_token(out.tokens(t), x + t * x_stride, static_cast<float>(quant::i16_most),
                   quant::i16_carry_ratio);
  }
}

float scale_i16(const quant::PanelsI16& w, size_t r, size_t c) noexcept {
  return quant::bf16_to_f32(w.scales[r / 16 * w.shape.panel_scales() + c / quant::i16_group * 16 + r % 16]);
}
// x: one token.
float add_row_i16(float y, const quant::PanelsI16& w, size_t r, const quant::ActivationsI16& x,
                  size_t first_col) noexcept {
  for (size_t group = 0; group < w.shape.n_cols; group += quant::i16_group) {
    float part = 0.0f;
    for (size_t begin = group; begin < std::min(w.shape.n_cols, group + quant::i16_group);
         begin += quant::i16_block) {
      const size_t place = x.place((first_col + begin) / quant::i16_block);
      std::int32_t dot = 0;
      for (size_t i = 0; i < std::min(quant::i16_block, w.shape.n_cols - begin); ++i)
        dot += code_i16(w, r, begin + i) * x.codes[place * quant::i16_block + i];
      part = std::fma(static_cast<float>(dot), x.scales[place], part);
    }
    y = std::fma(part, scale_i16(w, r, group), y);
  }
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    const size_t c = x.carried[i].index - first_col;  // huge where it is before them
    if (c >= w.shape.n_cols) continue;
    y = std::fma(x.carried[i].value, static_cast<float>(code_i16(w, r, c)) * scale_i16(w, r, c), y);
  }
  return y;
}
void matmul_i16(float* y, size_t y_stride, bool adds, const quant::ActivationsI16& x, size_t first_col,
                size_t n_tok, const quant::PanelsI16& w) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < w.shape.n_rows; ++r) {
      float& out = y[t * y_stride + r];
      out = add_row_i16(adds ? out : 0.0f, w, r, x.tokens(t), first_col);
    }
  }
}
bool prefers_i16() noexcept { return false; }

template <class T, float (*widen)(T)>
void scores(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const T* k,
            size_t n_blocks, size_t dim) noexcept {
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t j = 0; j < n_blocks * block_keys; ++j) {
      const T* const key = k + j / block_keys * block_keys * dim + j % block_keys;
      float sum = 0.0f;
      for (size_t d = 0; d < dim; ++d) sum += q[i * q_stride + d] * widen(key[d * block_keys]);
      s[i * s_stride + j] = sum;
    }
  }
}
void scores_f32(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<float, same>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}
void scores_f16(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<F16, quant::f16_to_f32>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}

template <class T, float (*widen)(T)>
void mix(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const T* v, size_t n_k,
         size_t dim) noexcept {
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t j = 0; j < n_k; ++j) {
      for (size_t d = 0; d < dim; ++d) y[i * y_stride + d] += p[i * p_stride + j] * widen(v[j * dim + d]);
    }
  }
}
void mix_f32(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,
             size_t n_k, size_t dim) noexcept {
  mix<float, same>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_f16(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v, size_t n_k,
             size_t dim) noexcept {
  mix<F16, quant::f16_to_f32>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

void scores_i8(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const std::int8_t* k,
               const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  const size_t n_steps = quant::divided_up(dim, dot_bytes);
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t j = 0; j < n_blocks * block_keys; ++j) {
      const std::int8_t* const block = k + j / block_keys * n_steps * block_keys * dot_bytes;
      float sum = 0.0f;
      for (size_t d = 0; d < dim; ++d) {
        const size_t at = (d / dot_bytes * block_keys + j % block_keys) * dot_bytes + d % dot_bytes;
        sum += q[i * q_stride + d] * static_cast<float>(block[at]);
      }
      s[i * s_stride + j] = sum * k_scales[j];
    }
  }
}
void mix_i8(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
            size_t n_k, size_t dim) noexcept {
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t j = 0; j < n_k; ++j) {
      const std::int8_t* const fours = v + j / dot_bytes * dim * dot_bytes + j % dot_bytes;
      for (size_t d = 0; d < dim; ++d)
        y[i * y_stride + d] += p[i * p_stride + j] * static_cast<float>(fours[d * dot_bytes]);
    }
  }
}

size_t unfetched_i8(size_t n, size_t /*n_q*/) noexcept { return n; }

float softmax_step(float* s, size_t n, float* max, float* sum) noexcept {
  float new_max = *max;
  for (size_t i = 0; i < n; ++i) new_max = std::max(new_max, s[i]);
  if (new_max == -std::numeric_limits<float>::infinity()) {  // all masked, and -inf - -inf is no number
    std::fill_n(s, n, 0.0f);
    return 1.0f;
  }
  const float rescale = std::exp(*max - new_max);
  *sum *= rescale;
  for (size_t i = 0; i < n; ++i) {
    s[i] = std::exp(s[i] - new_max);
    *sum += s[i];
  }
  *max = new_max;
  return rescale;
}

void rms_norm(float* y, const float* x, const float* gain, size_t n, float eps) noexcept {
  float squares = 0.0f;
  for (size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const float root = std::sqrt(squares / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] / root * gain[i];
}
void layer_norm(float* y, const float* x, const float* gain, const float* bias, size_t n,
                float eps) noexcept {
  float mean = 0.0f;
  for (size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<float>(n);
  float squares = 0.0f;
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float root = std::sqrt(squares / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) / root * gain[i] + (bias != nullptr ? bias[i] : 0.0f);
}

void rotate(float& a, float& b, float cos, float sin) noexcept {
  const float rotated_a = a * cos - b * sin;
  b = a * sin + b * cos;
  a = rotated_a;
}
void rope_adjacent(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  for (size_t i = 0; i < n_pairs; ++i) rotate(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
}
void rope_halves(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  for (size_t i = 0; i < n_pairs; ++i) rotate(x[i], x[i + n_pairs], cos[i], sin[i]);
}

float silu_of(float x) noexcept { return x / (1.0f + std::exp(-x)); }
float gelu_of(float x) noexcept {
  constexpr float sqrt_2_over_pi = 0.7978845608028654f;
  return 0.5f * x * (1.0f + std::tanh(sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
}
void silu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = silu_of(gate[i]) * up[i];
}
void gelu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = gelu_of(gate[i]) * up[i];
}
void gelu(float* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = gelu_of(x[i]);
}

void add(float* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}
void add_scaled(float* y, const float* x, float a, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}
void mul(float* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] *= x[i];
}
void scale(float* x, float a, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] *= a;
}
void soft_cap(float* x, float cap, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

}  // namespace

extern const Kernels kernels_scalar;
const Kernels kernels_scalar{
#define X(name, result, params) .name = name,
    RUNNEL_KERNELS(X)
#undef X
};

}  // namespace runnel::simd
