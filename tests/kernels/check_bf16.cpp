// The product of int8 weights in bf16: compared with the exact sum of the rounded numbers, in double
// precision.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/kernels/packed_weights.h"

namespace runnel::simd {
namespace {

using quant::VariantI8;

constexpr BF16 not_a_number = 0x7fc0;

using Case = PackedCase;

// Where input c of a token is among the values.
std::size_t place(const quant::ActivationsBf16& x, std::size_t t, std::size_t c) {
  return block_place(x, t, c / 32) * 32 + c % 32;
}

// A matrix and its activations. Tokens that only fill up are NaN: nothing may depend on them.
struct Operands {
  PackedWeights weights;
  Guarded<BF16> values;
  const quant::PanelsI8& w = weights.panels;
  quant::ActivationsBf16 x;

  Operands(const Case& c, Random& random)
      : weights(c),
        values(quant::bf16_room(c.n_tok) * quant::i8_padded(c.n_cols)),
        x{c.n_cols, quant::bf16_width(c.n_tok), values.data()} {
    for (std::int8_t& code : weights.codes) code = static_cast<std::int8_t>(random.bits());
    weights.draw_scales(random);
    std::fill(values.begin(), values.end(), not_a_number);
    for (std::size_t t = 0; t < c.n_tok; ++t) {
      for (std::size_t i = 0; i < quant::i8_padded(c.n_cols); ++i)
        values[place(x, t, i)] = i < c.n_cols ? quant::f32_to_bf16(random.number(true)) : BF16{0};
    }
  }

  std::vector<double> token(std::size_t t) const {
    std::vector<double> inputs(x.n_cols);
    for (std::size_t c = 0; c < inputs.size(); ++c)
      inputs[c] = static_cast<double>(quant::bf16_to_f32(values[place(x, t, c)]));
    return inputs;
  }
  std::vector<double> row(std::size_t r) const {
    std::vector<double> rounded(x.n_cols);
    for (std::size_t c = 0; c < rounded.size(); ++c) {
      const float exact = static_cast<float>(weights.code(r, c)) * weights.scale(r, c);
      rounded[c] = static_cast<double>(quant::bf16_to_f32(quant::f32_to_bf16(exact)));
    }
    return rounded;
  }
};

// The product with rows [begin, begin + n_rows) of the weights.
using Multiply =
    std::function<void(float* y, std::size_t y_stride, const quant::ActivationsBf16& x, std::size_t n_tok,
                       std::size_t begin, std::size_t n_rows, const void* next)>;

// With scratch memory as someone has left it.
template <class Work>
void with_scratch(Work work) {
  Guarded<BF16> scratch(bf16_scratch);
  std::fill(scratch.begin(), scratch.end(), not_a_number);
  work(scratch.data());
}

Multiply packed(const Kernels& kernels, const Operands& o) {
  return [&](float* y, std::size_t y_stride, const quant::ActivationsBf16& x, std::size_t n_tok,
             std::size_t begin, std::size_t n_rows, const void* next) {
    with_scratch([&](BF16* scratch) {
      kernels.matmul_bf16(y, y_stride, x, n_tok, o.w.rows(begin, n_rows), next, scratch);
    });
  };
}

// The same weights as Q8_0 has them: [n_rows, n_blocks].
struct RowsQ8_0 {
  Guarded<quant::BlockQ8_0> blocks;
  std::size_t n_blocks;

  explicit RowsQ8_0(const Operands& o)
      : blocks(o.w.shape.n_rows * o.w.shape.n_groups()), n_blocks(o.w.shape.n_groups()) {
    for (std::size_t r = 0; r < o.w.shape.n_rows; ++r) {
      for (std::size_t c = 0; c < o.w.shape.n_cols; ++c) {
        quant::BlockQ8_0& block = blocks[r * n_blocks + c / 32];
        block.d = quant::f32_to_f16(o.weights.scale(r, c));
        block.qs[c % 32] = static_cast<std::int8_t>(o.weights.code(r, c));
      }
    }
  }
};

Multiply as_q8_0(const Kernels& kernels, const RowsQ8_0& rows) {
  return [&](float* y, std::size_t y_stride, const quant::ActivationsBf16& x, std::size_t n_tok,
             std::size_t begin, std::size_t n_rows, const void* next) {
    with_scratch([&](BF16* scratch) {
      const quant::BlockQ8_0* const first = rows.blocks.data() + begin * rows.n_blocks;
      kernels.matmul_bf16_q8_0(y, y_stride, x, n_tok, first, n_rows, next, scratch);
    });
  };
}

void compare_with_exact(const Case& c, const Operands& o, const Guarded<float>& y, Report& report) {
  std::vector<std::vector<double>> rows;
  for (std::size_t r = 0; r < c.n_rows; ++r) rows.push_back(o.row(r));
  for (std::size_t t = 0; t < c.n_tok; ++t) {
    const std::vector<double> token = o.token(t);
    for (std::size_t r = 0; r < c.n_rows; ++r) {
      double sum = 0.0, mass = 0.0;
      for (std::size_t i = 0; i < c.n_cols; ++i) {
        sum += rows[r][i] * token[i];
        mass += std::fabs(rows[r][i] * token[i]);
      }
      // Of numbers up to 1e6 a product with one below the normal ones may be missing.
      const double tolerance = sum_tolerance(mass, c.n_cols) + 1e6 * 0x1p-126 * static_cast<double>(c.n_cols);
      report.near(static_cast<double>(y[t * c.y_stride() + r]), sum, tolerance,
                  "%s, %zu rows, %zu columns, %zu tokens: token %zu row %zu", c.name(), c.n_rows, c.n_cols,
                  c.n_tok, t, r);
    }
    if (t + 1 == c.n_tok) continue;
    for (std::size_t r = c.n_rows; r < c.y_stride(); ++r)
      report.expect(same_bits(&y[t * c.y_stride() + r], &untouched, 1), "%s: wrote between rows", c.name());
  }
}

// From some tile of tokens on, and some rows alone.
void compare_with_parts(const Multiply& multiply, const Case& c, const Operands& o, const Guarded<float>& y,
                        Report& report) {
  for (const std::size_t begin : Sizes{16, 32, 48, 64}) {
    if (begin >= c.n_tok) continue;
    Guarded<float> rest(extent(c.n_tok - begin, c.y_stride(), c.n_rows));
    std::fill(rest.begin(), rest.end(), untouched);
    multiply(rest.data(), c.y_stride(), o.x.tokens(begin), c.n_tok - begin, 0, c.n_rows, o.w.codes);
    report.expect(same_bits(rest.data(), &y[begin * c.y_stride()], rest.size()),
                  "%s, %zu rows, %zu columns, %zu tokens: other bits from token %zu on", c.name(), c.n_rows,
                  c.n_cols, c.n_tok, begin);
  }
  for (std::size_t r = 0; r < c.n_rows; r += 3 * panel_rows) {
    const std::size_t n = std::min(3 * panel_rows, c.n_rows - r);
    Guarded<float> part(c.n_tok * n);
    multiply(part.data(), n, o.x, c.n_tok, r, n, nullptr);
    for (std::size_t t = 0; t < c.n_tok; ++t)
      report.expect(same_bits(&part[t * n], &y[t * c.y_stride() + r], n),
                    "%s, %zu rows, %zu columns, %zu tokens: a split has other bits", c.name(), c.n_rows,
                    c.n_cols, c.n_tok);
  }
}

void check_product(const Multiply& multiply, const Case& c, const Operands& o, Report& report) {
  Guarded<float> y(extent(c.n_tok, c.y_stride(), c.n_rows));
  std::fill(y.begin(), y.end(), untouched);
  multiply(y.data(), c.y_stride(), o.x, c.n_tok, 0, c.n_rows, nullptr);
  report.expect(y.intact(), "%s: wrote before y", c.name());
  compare_with_exact(c, o, y, report);
  compare_with_parts(multiply, c, o, y, report);
}

// A token with an infinity or a NaN has NaN everywhere, its neighbours are as ever.
void check_poisoned(const Kernels& kernels, VariantI8 variant, float poison, Random& random, Report& report) {
  constexpr std::size_t n_rows = 37, n_cols = 300, n_tok = 20;
  const Operands o({variant, n_rows, n_cols, n_tok}, random);
  std::vector<float> x(n_cols * n_tok, 0.5f);
  x[n_cols + 7] = poison;
  kernels.round_bf16(o.x, x.data(), n_cols, n_tok);
  std::vector<float> y(n_rows * n_tok);
  packed(kernels, o)(y.data(), n_rows, o.x, n_tok, 0, n_rows, nullptr);
  for (std::size_t i = 0; i < y.size(); ++i)
    report.expect(std::isnan(y[i]) == (i / n_rows == 1), "poisoned token: output %zu", i);
}

}  // namespace

void check_least_bf16(const Kernels& kernels, Report& report) {
  report.expect(kernels.least_bf16() > 0, "not even a token");
}

void check_round_bf16(const Kernels& kernels, Report& report) {
  Random random;
  for (std::size_t n = 0; n <= 140; ++n) {
    for (const std::size_t n_tok : Sizes{1, 17, 50}) {
      const std::size_t stride = n + n % 3;
      Guarded<float> x(extent(n_tok, stride, n));
      for (float& v : x) v = random.bits() % 3 == 0 ? random.uniform(1e6f) : random.uniform();
      Guarded<BF16> values(quant::bf16_room(n_tok) * quant::i8_padded(n));
      constexpr BF16 before = 0x1234;
      std::fill(values.begin(), values.end(), before);
      const quant::ActivationsBf16 out{n, quant::bf16_width(n_tok), values.data()};
      // As threads share the tokens.
      const std::size_t first = n_tok / 3;
      kernels.round_bf16(out, x.data(), stride, first);
      if (first < n_tok)
        kernels.round_bf16(out.tokens(first), x.data() + first * stride, stride, n_tok - first);
      report.expect(values.intact(), "n %zu: wrote before the values", n);
      for (std::size_t t = 0; t < n_tok; ++t) {
        for (std::size_t c = 0; c < quant::i8_padded(n); ++c) {
          const BF16 expected = c < n ? quant::f32_to_bf16(x[t * stride + c]) : BF16{0};
          report.expect(values[place(out, t, c)] == expected, "n %zu, token %zu of %zu, input %zu", n, t,
                        n_tok, c);
        }
      }
      if (n == 0 || n_tok % 16 == 0) continue;
      report.expect(n_tok > 48 || values[place(out, n_tok, 0)] == before, "wrote a token that there is not");
    }
  }
}

void check_matmul_bf16(const Kernels& kernels, Report& report) {
  Random random;
  const auto check = [&](const Case& c) {
    const Operands o(c, random);
    check_product(packed(kernels, o), c, o, report);
  };
  for (const VariantI8 variant : {VariantI8::g32, VariantI8::g128}) {
    for (std::size_t n_cols = 0; n_cols <= 140; ++n_cols) check({variant, 19, n_cols, 3});
    for (const std::size_t n_rows : Sizes{0, 1, 15, 16, 17, 31, 32, 33, 48, 63, 65, 81})
      check({variant, n_rows, 70, 33 + n_rows % 4});
    for (std::size_t n_tok = 0; n_tok <= 100; n_tok += n_tok % 16 == 2 ? 13 : 1)
      check({variant, 33, 140, n_tok});
    for (const std::size_t n_cols : Sizes{2044, 2048, 2052, 4100})  // columns in stretches
      check({variant, 35, n_cols, 19});
    check({variant, 3, 1100, 530});  // tokens in passes
    for (const float poison :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      check_poisoned(kernels, variant, poison, random, report);
  }
}

void check_matmul_bf16_q8_0(const Kernels& kernels, Report& report) {
  Random random;
  const auto check = [&](std::size_t n_rows, std::size_t n_blocks, std::size_t n_tok) {
    const Case c{VariantI8::g32, n_rows, n_blocks * quant::BlockQ8_0::size, n_tok};
    const Operands o(c, random);
    const RowsQ8_0 rows(o);
    check_product(as_q8_0(kernels, rows), c, o, report);
  };
  for (std::size_t n_rows = 0; n_rows <= 100; n_rows += n_rows % 16 == 2 ? 13 : 1) check(n_rows, 3, 20);
  for (const std::size_t n_blocks : Sizes{0, 1, 2, 11, 12, 13, 25, 63, 64, 65, 130}) check(35, n_blocks, 19);
  for (const std::size_t n_tok : Sizes{0, 1, 16, 47, 49, 97, 530}) check(37, 2, n_tok);
}

}  // namespace runnel::simd
