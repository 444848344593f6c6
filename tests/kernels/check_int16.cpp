// Int16: weights are compared with the definition in quant/i16.h; the product bit for bit with the order of
// operations in kernels.h, written down here, and that with the exact sum in double precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

// Where row r, column c of panels lies.
std::size_t code_place(const quant::ShapeI16& shape, std::size_t r, std::size_t c) {
  return ((r / 16 * shape.n_blocks() * 16 + c / 2) * 16 + r % 16) * 2 + c % 2;
}
std::size_t scale_place(const quant::ShapeI16& shape, std::size_t r, std::size_t c) {
  return (r / 16 * shape.n_groups() + c / 128) * 16 + r % 16;
}

// ---- Weights.

// The power of two with which the largest of a row's weights [begin, end) has 13 bits; 0 or NaN: no codes.
template <class Format>
double expected_scale(const typename Format::Element* row, std::size_t begin, std::size_t end) {
  double max = 0.0;
  for (std::size_t c = begin; c < end; ++c) {
    const double magnitude = std::fabs(Format::value(row[c]));
    if (!std::isfinite(magnitude)) return std::numeric_limits<double>::quiet_NaN();
    max = std::max(max, magnitude);
  }
  return max < 0x1p-100 ? 0.0 : std::ldexp(1.0, std::ilogb(max) - 12);
}

template <class Format>
struct Weights {
  using Element = typename Format::Element;
  std::size_t n_rows, n_cols, stride;
  Guarded<Element> w;

  Weights(std::size_t rows, std::size_t cols)
      : n_rows(rows), n_cols(cols), stride(cols + cols % 3), w(extent(rows, stride, cols)) {}

  template <class Fn>
  bool check(Fn fn, const char* what, Report& report) const {
    const quant::ShapeI16 shape{n_rows, n_cols};
    Guarded<std::int16_t> codes(shape.n_codes());
    Guarded<std::uint16_t> scales(shape.n_scales());
    const bool is_precise = fn({shape, codes.data(), scales.data()}, w.data(), stride);
    report.expect(codes.intact() && scales.intact(), "%s [%zu, %zu]: wrote before the panels", what, n_rows,
                  n_cols);
    for (std::size_t r = 0; r < shape.n_panels() * 16; ++r) {
      for (std::size_t group = 0; group < shape.n_groups(); ++group)
        check_group(r, group * 128, codes, scales, what, report);
    }
    report.expect(is_precise == are_precise(codes), "%s [%zu, %zu]: is %sprecise", what, n_rows, n_cols,
                  is_precise ? "" : "not ");
    return is_precise;
  }

  // Whether the mean of (256 / k)^2 over each group of each panel is at most 1, k the mean magnitude of an
  // input's codes in every second row, and no other weights than zeros are lost there.
  bool are_precise(const Guarded<std::int16_t>& codes) const {
    const quant::ShapeI16 shape{n_rows, n_cols};
    for (std::size_t first = 0; first < n_rows; first += 16) {
      for (std::size_t begin = 0; begin < n_cols; begin += 128) {
        const std::size_t end = std::min(n_cols, begin + 128);
        double error = 0.0;
        for (std::size_t c = begin; c < end; ++c) {
          double sum = 0.0, weights = 0.0;
          for (std::size_t r = first; r < std::min(n_rows, first + 16); r += 2) {
            sum += std::abs(codes[code_place(shape, r, c)]);
            const double weight = Format::value(w[r * stride + c]);
            weights += std::isnan(weight) ? 1.0 : std::fabs(weight);
          }
          if (sum == 0.0 && weights != 0.0) return false;
          if (sum != 0.0) error += std::pow(256 * 8 / std::min(sum, 65535.0), 2);
        }
        if (error > static_cast<double>(end - begin)) return false;
      }
    }
    return true;
  }

  // Of row r from column `begin` on, and what only fills up.
  void check_group(std::size_t r, std::size_t begin, const Guarded<std::int16_t>& codes,
                   const Guarded<std::uint16_t>& scales, const char* what, Report& report) const {
    const quant::ShapeI16 shape{n_rows, n_cols};
    const double scale =
        r < n_rows ? expected_scale<Format>(w.data() + r * stride, begin, std::min(n_cols, begin + 128))
                   : 0.0;
    const auto got = static_cast<double>(quant::bf16_to_f32(scales[scale_place(shape, r, begin)]));
    report.expect(got == scale || (std::isnan(got) && std::isnan(scale)),
                  "%s [%zu, %zu]: scale of row %zu column %zu", what, n_rows, n_cols, r, begin);
    for (std::size_t c = begin; c < std::min(shape.n_blocks() * 32, begin + 128); ++c) {
      const bool has_code = c < n_cols && scale > 0.0;  // NaN is not
      const double expected = has_code ? std::nearbyint(Format::value(w[r * stride + c]) / scale) : 0.0;
      const int code = codes[code_place(shape, r, c)];
      report.expect(code == expected, "%s [%zu, %zu]: code of row %zu column %zu is %d, not %g", what, n_rows,
                    n_cols, r, c, code, expected);
      report.expect(std::abs(code) <= quant::i16_most, "%s: code %d", what, code);
    }
  }
};

// The largest and the smallest numbers of a format, of all signs.
template <class Format>
float draw(Random& random, int kind) {
  switch (kind) {
    case 0:
      return random.number();
    case 1:  // all bits of the mantissa
      return random.bits() % 2 == 0 ? 1.9999f : -1.9999f;
    default:
      return std::ldexp(random.uniform(), static_cast<int>(random.bits() % 250) - 125);
  }
}

// One input with weights `factor` times the others', wherever it is.
template <class Format, class Fn>
void check_precision(Fn fn, Report& report) {
  Random random;
  for (std::size_t c = 0; c < 160; ++c) {
    const std::size_t panel = c % 2 * 16;
    for (const float factor : {0.0f, 1e-6f, 1e-4f, 0.03f, 0.1f, 1.0f, 4.0f, 30.0f, 1e4f}) {
      Weights<Format> weights(32, 160);
      for (auto& w : weights.w) w = Format::make(random.uniform());
      for (std::size_t r = panel; r < panel + 16; ++r)
        weights.w[r * weights.stride + c] = Format::make(random.uniform() * factor);
      const bool is_precise = weights.check(fn, "one input", report);
      if (factor <= 1e-4f || factor == 1.0f || factor == 1e4f) {
        report.expect(is_precise == (factor == 0.0f || factor == 1.0f), "column %zu, %g times: precise: %d",
                      c, static_cast<double>(factor), is_precise);
      }
    }
  }
}

template <class Format, class Fn>
void check_pack(Fn fn, Report& report) {
  Random random;
  const auto check = [&](std::size_t n_rows, std::size_t n_cols, int kind) {
    Weights<Format> weights(n_rows, n_cols);
    // Never rounded up to infinity.
    for (auto& w : weights.w) w = Format::make(std::clamp(draw<Format>(random, kind), -60000.0f, 60000.0f));
    weights.check(fn, "pack", report);
  };
  for (std::size_t n_cols = 0; n_cols <= 300; ++n_cols) check(16, n_cols, 0);
  for (std::size_t n_rows = 0; n_rows <= 50; ++n_rows) check(n_rows, 140, 0);
  for (const int kind : {1, 2}) {
    for (const std::size_t n_cols : Sizes{1, 31, 33, 128, 257}) check(19, n_cols, kind);
  }
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    Weights<Format> weights(17, 200);  // spoils its group, and no other: a whole one, and the part at the end
    for (auto& w : weights.w) w = Format::make(random.number());
    weights.w[5 * weights.stride + 7] = Format::make(bad);
    weights.w[3 * weights.stride + 130] = Format::make(bad);
    weights.check(fn, "not finite", report);
  }
  check_precision<Format>(fn, report);
}

// ---- The product.

struct Case {
  std::size_t n_rows, n_cols, n_tok, first_col,
      last_cols;  // of the activations, before and after the weights
  std::size_t x_cols() const { return first_col + n_cols + last_cols; }
  std::size_t y_stride() const { return n_rows + n_cols % 5; }
};

struct Operands {
  Guarded<std::int16_t> w_codes;
  Guarded<std::uint16_t> w_scales;
  Guarded<std::int16_t> x_codes;
  Guarded<float> x_scales;
  Guarded<quant::CarriedEntry> x_carried;
  Guarded<std::uint32_t> x_n_carried;
  Guarded<float> x_maxima;
  quant::PanelsI16 w;
  quant::ActivationsI16 x;

  Operands(const Case& c, bool extremes, Random& random)
      : w_codes(quant::ShapeI16{c.n_rows, c.n_cols}.n_codes()),
        w_scales(quant::ShapeI16{c.n_rows, c.n_cols}.n_scales()),
        x_codes(quant::i8_room(c.n_tok) * quant::i8_padded(c.x_cols())),
        x_scales(quant::i8_room(c.n_tok) * quant::i8_blocks(c.x_cols())),
        x_carried(c.n_tok * quant::i8_max_carried(c.x_cols())),
        x_n_carried(c.n_tok),
        x_maxima(c.n_tok * quant::i8_blocks(c.x_cols())),
        w{{c.n_rows, c.n_cols}, w_codes.data(), w_scales.data()},
        x{.n_cols = c.x_cols(),
          .width = quant::i8_width(c.n_tok),
          .codes = x_codes.data(),
          .scales = x_scales.data(),
          .carried = x_carried.data(),
          .n_carried = x_n_carried.data(),
          .maxima = x_maxima.data()} {
    const auto code = [&] {
      const int most = quant::i16_most;
      if (extremes) return static_cast<std::int16_t>(most);
      return static_cast<std::int16_t>(static_cast<int>(random.bits() % (2 * most + 1)) - most);
    };
    for (std::int16_t& w_code : w_codes)
      w_code = code();  // of rows that only fill up, too: nothing may depend on them
    for (std::size_t r = 0; r < w.shape.n_panels() * 16; ++r) {
      for (std::size_t col = c.n_cols; col < w.shape.n_blocks() * 32; ++col)
        w_codes[code_place(w.shape, r, col)] = 0;
    }
    for (std::uint16_t& scale : w_scales)
      scale = quant::f32_to_bf16(std::ldexp(1.0f, -static_cast<int>(random.bits() % 20)));
    for (std::int16_t& x_code : x_codes) x_code = code();
    for (float& scale : x_scales) scale = std::fabs(random.number());
    for (std::size_t t = 0; t < c.n_tok; ++t) carry(t, random);
  }

  void carry(std::size_t t, Random& random) {
    const quant::ActivationsI16 row = x.tokens(t);
    const std::size_t most = quant::i8_max_carried(row.n_cols);
    *row.n_carried = 0;
    for (std::size_t i = 0; i < t % (most + 1); ++i) {
      const std::size_t index = i * row.n_cols / most + random.bits() % 3;
      if (index >= row.n_cols || (i > 0 && index <= row.carried[i - 1].index)) break;
      row.carried[(*row.n_carried)++] = {static_cast<std::uint32_t>(index), random.number(true)};
    }
  }

  std::size_t place(std::size_t t, std::size_t b) const { return block_place(x, t, b); }
  int x_code(std::size_t t, std::size_t c) const { return x_codes[place(t, c / 32) * 32 + c % 32]; }
  int code(std::size_t r, std::size_t c) const { return w_codes[code_place(w.shape, r, c)]; }
  float scale(std::size_t r, std::size_t c) const {
    return quant::bf16_to_f32(w_scales[scale_place(w.shape, r, c)]);
  }
};

float expected(const Case& c, const Operands& o, std::size_t t, std::size_t r, float y) {
  for (std::size_t group = 0; group < c.n_cols; group += 128) {
    float part = 0.0f;
    for (std::size_t begin = group; begin < std::min(c.n_cols, group + 128); begin += 32) {
      int dot = 0;
      for (std::size_t i = begin; i < std::min(c.n_cols, begin + 32); ++i)
        dot += o.code(r, i) * o.x_code(t, c.first_col + i);
      part = std::fma(static_cast<float>(dot), o.x_scales[o.place(t, (c.first_col + begin) / 32)], part);
    }
    y = std::fma(part, o.scale(r, group), y);
  }
  const quant::ActivationsI16 x = o.x.tokens(t);
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    if (x.carried[i].index < c.first_col || x.carried[i].index >= c.first_col + c.n_cols) continue;
    const std::size_t col = x.carried[i].index - c.first_col;
    y = std::fma(x.carried[i].value, static_cast<float>(o.code(r, col)) * o.scale(r, col), y);
  }
  return y;
}

double exact(const Case& c, const Operands& o, std::size_t t, std::size_t r, double sum, double* mass) {
  *mass = std::fabs(sum);
  const auto add = [&](double x_value, std::size_t col) {
    const double product = x_value * o.code(r, col) * static_cast<double>(o.scale(r, col));
    sum += product;
    *mass += std::fabs(product);
  };
  for (std::size_t col = 0; col < c.n_cols; ++col) {
    const std::size_t at = c.first_col + col;
    add(static_cast<double>(o.x_scales[o.place(t, at / 32)]) * o.x_code(t, at), col);
  }
  const quant::ActivationsI16 x = o.x.tokens(t);
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    const std::size_t at = x.carried[i].index;
    if (at >= c.first_col && at < c.first_col + c.n_cols)
      add(static_cast<double>(x.carried[i].value), at - c.first_col);
  }
  return sum;
}

void check_sums(const Kernels& kernels, const Case& c, const Operands& o, bool adds, Random& random,
                Report& report) {
  const std::size_t size = extent(c.n_tok, c.y_stride(), c.n_rows);
  Guarded<float> before(size);
  Guarded<float> y(size);
  Guarded<float> split(size);
  for (std::size_t i = 0; i < size; ++i) {
    const bool is_sum = adds && i % c.y_stride() < c.n_rows;
    before[i] = is_sum ? random.number() : 0.0f;
    y[i] = split[i] = is_sum ? before[i] : untouched;
  }
  kernels.matmul_i16(y.data(), c.y_stride(), adds, o.x, c.first_col, c.n_tok, o.w);
  report.expect(y.intact(), "wrote before y");
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t t = i / c.y_stride(), r = i % c.y_stride();
    const float e = r < c.n_rows ? expected(c, o, t, r, before[i]) : untouched;
    report.expect(same_bits(&y[i], &e, 1),
                  "%zu rows, %zu columns, %zu tokens: token %zu row %zu is %.9g, not %.9g", c.n_rows,
                  c.n_cols, c.n_tok, t, r, static_cast<double>(y[i]), static_cast<double>(e));
    if (r >= c.n_rows) continue;
    double mass = 0.0;
    const double sum = exact(c, o, t, r, static_cast<double>(before[i]), &mass);
    report.near(static_cast<double>(e), sum, sum_tolerance(mass, c.n_cols), "the formula itself");
  }
  for (std::size_t t = 0; t < c.n_tok; ++t) {  // token by token and panel by panel
    for (std::size_t r = 0; r < c.n_rows; r += panel_rows) {
      kernels.matmul_i16(split.data() + t * c.y_stride() + r, c.y_stride(), adds, o.x.tokens(t), c.first_col,
                         1, o.w.rows(r, std::min(panel_rows, c.n_rows - r)));
    }
  }
  report.expect(same_bits(y.data(), split.data(), size),
                "%zu rows, %zu columns, %zu tokens: a split has other bits", c.n_rows, c.n_cols, c.n_tok);
}

void check_case(const Kernels& kernels, const Case& c, bool extremes, Random& random, Report& report) {
  check_sums(kernels, c, Operands(c, extremes, random), true, random, report);
}

}  // namespace

void check_pack_i16_f16(const Kernels& kernels, Report& report) {
  check_pack<FormatF16>(kernels.pack_i16_f16, report);
}
void check_pack_i16_bf16(const Kernels& kernels, Report& report) {
  check_pack<FormatBf16>(kernels.pack_i16_bf16, report);
}

void check_matmul_i16(const Kernels& kernels, Report& report) {
  Random random;
  for (std::size_t n_cols = 0; n_cols <= 300; ++n_cols)
    check_case(kernels, {19, n_cols, 3, 0, 0}, false, random, report);
  for (std::size_t n_rows = 0; n_rows <= 81; ++n_rows)
    check_case(kernels, {n_rows, 70, 1 + n_rows % 2, 0, 0}, false, random, report);
  for (std::size_t n_tok = 0; n_tok <= 100; ++n_tok)
    check_case(kernels, {33, 140, n_tok, 0, 0}, false, random, report);
  for (std::size_t n_tok = 0; n_tok <= 13; ++n_tok) {
    const Case c{1 + 5 * n_tok, 10 * n_tok, n_tok, 0, 0};
    check_sums(kernels, c, Operands(c, false, random), false, random, report);
  }
  for (const std::size_t first_col : Sizes{32, 64, 512}) {
    for (const std::size_t last_cols : Sizes{0, 32, 100})
      check_case(kernels, {50, 160, 21, first_col, last_cols}, false, random, report);
  }
  for (const std::size_t n_cols : Sizes{32, 128, 512})
    check_case(kernels, {34, n_cols, 9, 0, 0}, true, random, report);
}

// Either may be right; but nobody prefers the int16 of the plain row.
void check_prefers_i16(const Kernels& kernels, Report& report) {
  const IsaRow* row = nullptr;
  const Kernels scalar = select("scalar", 0, &row);
  report.expect(!kernels.prefers_i16() || kernels.matmul_i16 != scalar.matmul_i16, "prefers what it has not");
}

}  // namespace runnel::simd
