// The int8 product is compared bit for bit with the order of operations in kernels.h, written down here, and
// that with the exact sum in double precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/kernels/packed_weights.h"

namespace runnel::simd {
namespace {

using quant::VariantI8;

using Case = PackedCase;

// What the codes are drawn from.
enum class Codes { all, extremes, most_negative };

// Where sums of products begin: at 1.5 2^23.
constexpr float base = 12582912.0f;
constexpr std::int32_t base_bits = 0x4b400000;

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

std::int8_t draw(Codes codes, Random& random, bool weight) {
  const std::uint32_t bits = random.bits();
  if (codes == Codes::all) return static_cast<std::int8_t>(static_cast<int>(bits % 255) - 127);
  if (codes == Codes::extremes) return bits % 2 == 0 ? std::int8_t{127} : std::int8_t{-127};
  return weight ? std::int8_t{-128} : std::int8_t{-127};  // -128 is possible in a Q8_0 file
}

// A matrix and its activations, which hold numbers too where they only fill up.
struct Operands {
  PackedWeights weights;
  Guarded<std::int8_t> x_codes;
  Guarded<float> x_scales;
  Guarded<std::int32_t> x_offsets;
  Guarded<float> x_bases, x_group_bases;
  Guarded<std::int8_t> x_split;
  Guarded<quant::CarriedEntry> x_carried;
  Guarded<std::uint32_t> x_n_carried;
  Guarded<float> x_maxima;
  const quant::PanelsI8& w = weights.panels;
  quant::ActivationsI8 x;

  Operands(const Kernels& kernels, const Case& c, Codes codes, Random& random, bool raised = false)
      : weights(c),
        x_codes(quant::i8_room(c.n_tok) * quant::i8_padded(c.n_cols)),
        x_scales(quant::i8_room(c.n_tok) * quant::i8_blocks(c.n_cols)),
        x_offsets(x_scales.size()),
        x_bases(x_scales.size()),
        x_group_bases(x_scales.size()),
        x_split(kernels.reads_split_i8() ? x_scales.size() * 64 : 0),
        x_carried(c.n_tok * quant::i8_max_carried(c.n_cols)),
        x_n_carried(c.n_tok),
        x_maxima(c.n_tok * quant::i8_blocks(c.n_cols)),
        x{c.n_cols,
          quant::i8_width(c.n_tok),
          x_codes.data(),
          x_scales.data(),
          x_offsets.data(),
          x_bases.data(),
          x_group_bases.data(),
          x_carried.data(),
          x_n_carried.data(),
          x_maxima.data(),
          kernels.reads_split_i8() ? x_split.data() : nullptr,
          raised} {
    for (std::int8_t& code : x_codes) code = draw(codes, random, false);
    for (std::int8_t& code : weights.codes) code = draw(codes, random, true);
    weights.draw_scales(random);
    for (std::size_t t = 0; t < c.n_tok; ++t) fill_token(t, codes, random);
    if (x.raised) {
      for (std::int8_t& code : x_codes) code = static_cast<std::int8_t>(code + 128);
    }
  }

  void fill_token(std::size_t t, Codes codes, Random& random) {
    const quant::ActivationsI8 row = x.tokens(t);
    const std::size_t max_carried = quant::i8_max_carried(row.n_cols);
    *row.n_carried = static_cast<std::uint32_t>(t % 4 == 3 ? max_carried : t % 3);
    std::size_t next = 0;
    for (std::size_t i = 0; i < *row.n_carried; ++i) {
      const std::size_t index = next + random.bits() % std::max(std::size_t{1}, row.n_cols / max_carried);
      if (index >= row.n_cols) {
        *row.n_carried = static_cast<std::uint32_t>(i);
        break;
      }
      row.carried[i] = {static_cast<std::uint32_t>(index), random.number(true)};
      next = index + 1;
    }
    for (std::size_t c = 0; c < quant::i8_padded(row.n_cols); ++c)
      x_code(t, c) = c < row.n_cols ? draw(codes, random, false) : std::int8_t{0};
    for (std::size_t i = 0; i < *row.n_carried; ++i) x_code(t, row.carried[i].index) = 0;
    for (std::size_t b = 0; b < quant::i8_blocks(row.n_cols); ++b) {
      x_scales[place(t, b)] = quant::i8_scale(std::fabs(random.number(t % 5 == 4)));
      x_bases[place(t, b)] = -base * x_scale(t, b);
      float& group_base = x_group_bases[place(t, b / 4 * 4)];
      group_base = b % 4 == 0 ? x_bases[place(t, b)] : group_base + x_bases[place(t, b)];
      if (x.split != nullptr)
        split_block(t, b);
      else
        x_offsets[place(t, b)] =
            base_bits - 128 * std::accumulate(&x_code(t, b * 32), &x_code(t, b * 32) + 32, 0);
    }
  }

  void split_block(std::size_t t, std::size_t b) {
    std::int32_t& negative = x_offsets[place(t, b)] = base_bits;
    for (std::size_t i = 0; i < 32; ++i) {
      const int code = x_code(t, b * 32 + i);
      negative += std::max(-code, 0);
      x_split[place(t, b) * 64 + i] = static_cast<std::int8_t>(std::abs(code));
      x_split[place(t, b) * 64 + 32 + i] = code < 0 ? -1 : 0;
    }
  }

  std::size_t place(std::size_t t, std::size_t b) const { return block_place(x, t, b); }
  std::int8_t& x_code(std::size_t t, std::size_t c) { return x_codes[place(t, c / 32) * 32 + c % 32]; }
  float x_scale(std::size_t t, std::size_t b) const { return x_scales[place(t, b)]; }
  std::vector<std::int8_t> token(std::size_t t) const {
    std::vector<std::int8_t> codes(x.n_cols);
    for (std::size_t c = 0; c < codes.size(); ++c)
      codes[c] = static_cast<std::int8_t>(x_codes[place(t, c / 32) * 32 + c % 32] - x.zero());
    return codes;
  }

  int code(std::size_t r, std::size_t c) const { return weights.code(r, c); }
  float scale(std::size_t r, std::size_t c) const { return weights.scale(r, c); }
};

// What a block of a row and a token gives, and how large it could be.
struct Dot {
  int sum, magnitude;
};

std::vector<Dot> dots(const std::vector<std::int8_t>& row, const std::vector<std::int8_t>& token) {
  std::vector<Dot> result(quant::i8_blocks(row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    const int product = row[i] * token[i];
    result[i / 32].sum += product;
    result[i / 32].magnitude += std::abs(product);
  }
  return result;
}

float expected(const Operands& o, std::size_t t, std::size_t r, const std::vector<Dot>& dots) {
  const quant::ActivationsI8 x = o.x.tokens(t);
  float y = 0.0f;
  float part = 0.0f;
  for (std::size_t b = 0; b < dots.size(); ++b) {
    const auto dot = static_cast<float>(dots[b].sum);
    if (o.w.shape.variant == VariantI8::g32) {
      y = std::fma(dot * o.x_scale(t, b), o.scale(r, b * 32), y);
      continue;
    }
    if (b % 4 == 0) part = o.x_group_bases[o.place(t, b)];
    part = std::fma(base + dot, o.x_scale(t, b), part);
    if (b % 4 == 3 || b + 1 == dots.size()) y = std::fma(part, o.scale(r, b * 32), y);
  }
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    const std::size_t c = x.carried[i].index;
    y = std::fma(x.carried[i].value, static_cast<float>(o.code(r, c)) * o.scale(r, c), y);
  }
  return y;
}

// What groups of blocks may be off by because their sums begin at bases: half of the last place of the first
// two, three and four of a group's bases, as they are added up, and of the last three, two and one of them,
// which are left in its sum when a block has been added.
double off_by_bases(const Operands& o, std::size_t t, std::size_t r, std::size_t n_blocks) {
  if (o.w.shape.variant == VariantI8::g32) return 0.0;
  double off = 0.0;
  for (std::size_t begin = 0; begin < n_blocks; begin += 4) {
    const std::size_t end = std::min(begin + 4, n_blocks);
    const auto base_of = [&](std::size_t b) {
      return static_cast<double>(base) * static_cast<double>(o.x_scale(t, b));
    };
    double all = 0.0, added_up = 0.0, places = 0.0;
    for (std::size_t b = begin; b < end; ++b) all += base_of(b);
    for (std::size_t b = begin; b < end; ++b) {
      added_up += base_of(b);
      if (b > begin) places += added_up;
      places += all - added_up;
    }
    off += places * 0x1p-24 * std::fabs(static_cast<double>(o.scale(r, begin * 32)));
  }
  return off;
}

// The same as one sum, and how large it could be.
double exact(const Operands& o, std::size_t t, std::size_t r, const std::vector<Dot>& dots, double* mass) {
  const quant::ActivationsI8 x = o.x.tokens(t);
  double sum = 0.0;
  const auto add = [&](double dot, double magnitude, double scale) {
    sum += dot * scale;
    *mass += magnitude * std::fabs(scale);
  };
  for (std::size_t b = 0; b < dots.size(); ++b)
    add(dots[b].sum, dots[b].magnitude,
        static_cast<double>(o.x_scale(t, b)) * static_cast<double>(o.scale(r, b * 32)));
  for (std::uint32_t i = 0; i < *x.n_carried; ++i) {
    const double product = static_cast<double>(x.carried[i].value) * o.code(r, x.carried[i].index);
    add(product, std::fabs(product), static_cast<double>(o.scale(r, x.carried[i].index)));
  }
  return sum;
}

void compare_with_formula(const Case& c, const Operands& o, const Guarded<float>& y, Report& report) {
  std::vector<std::vector<std::int8_t>> rows;
  for (std::size_t r = 0; r < c.n_rows; ++r) rows.push_back(o.weights.row(r));
  for (std::size_t t = 0; t < c.n_tok; ++t) {
    const std::vector<std::int8_t> token = o.token(t);
    for (std::size_t r = 0; r < c.n_rows; ++r) {
      const float got = y[t * c.y_stride() + r];
      const std::vector<Dot> of_blocks = dots(rows[r], token);
      const float e = expected(o, t, r, of_blocks);
      report.expect(equal(got, e),
                    "%s, %zu rows, %zu columns, %zu tokens: token %zu row %zu is %.9g, not %.9g", c.name(),
                    c.n_rows, c.n_cols, c.n_tok, t, r, static_cast<double>(got), static_cast<double>(e));
      double mass = 0.0;
      const double sum = exact(o, t, r, of_blocks, &mass);
      // A product of two scales below the normal numbers is off by 2^-150, times a dot below 2^19.
      const double tolerance = sum_tolerance(mass, c.n_cols) + off_by_bases(o, t, r, of_blocks.size()) +
                               0x1p-131 * static_cast<double>(c.n_cols);
      report.near(static_cast<double>(e), sum, tolerance, "%s: the formula itself", c.name());
    }
    if (t + 1 == c.n_tok) continue;
    for (std::size_t r = c.n_rows; r < c.y_stride(); ++r)
      report.expect(same_bits(&y[t * c.y_stride() + r], &untouched, 1), "%s: wrote between rows", c.name());
  }
}

// From some token on, which need not be the first of its chunk.
void compare_with_rest(const Kernels& kernels, const Case& c, const Operands& o, const Guarded<float>& y,
                       Report& report) {
  for (const std::size_t begin : Sizes{1, 5, 47, 51}) {
    if (begin >= c.n_tok) continue;
    Guarded<float> rest((c.n_tok - begin - 1) * c.y_stride() + c.n_rows);
    std::fill(rest.begin(), rest.end(), untouched);
    kernels.matmul_i8(rest.data(), c.y_stride(), o.x.tokens(begin), c.n_tok - begin, o.w, o.w.codes);
    report.expect(same_bits(rest.data(), &y[begin * c.y_stride()], rest.size()),
                  "%s, %zu rows, %zu columns, %zu tokens: other bits from token %zu on", c.name(), c.n_rows,
                  c.n_cols, c.n_tok, begin);
  }
}

// Token by token and panel by panel.
void compare_with_split(const Kernels& kernels, const Case& c, const Operands& o, const Guarded<float>& y,
                        Report& report) {
  Guarded<float> part(panel_rows);
  for (std::size_t t = 0; t < c.n_tok; ++t) {
    for (std::size_t r = 0; r < c.n_rows; r += panel_rows) {
      const std::size_t n = std::min(panel_rows, c.n_rows - r);
      float* const out = part.data() + panel_rows - n;  // up to the guard
      kernels.matmul_i8(out, n, o.x.tokens(t), 1, o.w.rows(r, n), nullptr);
      report.expect(same_bits(out, &y[t * c.y_stride() + r], n),
                    "%s, %zu rows, %zu columns, %zu tokens: a split has other bits", c.name(), c.n_rows,
                    c.n_cols, c.n_tok);
    }
  }
}

void check_operands(const Kernels& kernels, const Case& c, const Operands& o, Report& report) {
  Guarded<float> y(extent(c.n_tok, c.y_stride(), c.n_rows));
  std::fill(y.begin(), y.end(), untouched);
  kernels.matmul_i8(y.data(), c.y_stride(), o.x, c.n_tok, o.w, nullptr);
  report.expect(y.intact(), "%s: wrote before y", c.name());
  compare_with_formula(c, o, y, report);
  compare_with_rest(kernels, c, o, y, report);
  compare_with_split(kernels, c, o, y, report);
}

bool reads_raised(const Kernels& kernels) { return kernels.least_raised_i8() != never; }

void check_case(const Kernels& kernels, const Case& c, Codes codes, Random& random, Report& report) {
  check_operands(kernels, c, Operands(kernels, c, codes, random), report);
  if (reads_raised(kernels)) check_operands(kernels, c, Operands(kernels, c, codes, random, true), report);
}

// A poisoned token has NaN everywhere, its neighbours are as ever.
void check_poisoned(const Kernels& kernels, VariantI8 variant, std::size_t n_tok, bool raised, Random& random,
                    Report& report) {
  constexpr std::size_t n_rows = 37;
  constexpr std::size_t n_cols = 300;
  Operands o(kernels, {variant, n_rows, n_cols, n_tok}, Codes::all, random, raised);
  std::vector<float> x(n_cols * n_tok, 0.5f);
  x[n_cols + 7] = std::numeric_limits<float>::infinity();
  kernels.quantize_i8(o.x, x.data(), n_cols, n_tok);
  std::vector<float> y(n_rows * n_tok);
  kernels.matmul_i8(y.data(), n_rows, o.x, n_tok, o.w, nullptr);
  for (std::size_t i = 0; i < y.size(); ++i)
    report.expect(std::isnan(y[i]) == (i / n_rows == 1), "poisoned token: output %zu", i);
}

}  // namespace

// Other codes beside the same split make no difference where the product reads the split, and some where it
// does not.
void check_reads_split_i8(const Kernels& kernels, Report& report) {
  Random random;
  constexpr std::size_t n_rows = 16, n_tok = 3;
  Operands o(kernels, {VariantI8::g32, n_rows, 96, n_tok}, Codes::all, random);
  const auto product = [&] {
    std::vector<float> y(n_rows * n_tok);
    kernels.matmul_i8(y.data(), n_rows, o.x, n_tok, o.w, nullptr);
    return y;
  };
  const std::vector<float> before = product();
  for (std::int8_t& code : o.x_codes) code = draw(Codes::all, random, false);
  report.expect((product() == before) == kernels.reads_split_i8(), "the product reads %s",
                kernels.reads_split_i8() ? "codes" : "no codes");
}

// Raised codes give the same sums. Taken for others they do not.
void check_least_raised_i8(const Kernels& kernels, Report& report) {
  if (!reads_raised(kernels)) return;
  Random random;
  const std::size_t n_rows = 16, n_tok = kernels.least_raised_i8();
  Operands o(kernels, {VariantI8::g32, n_rows, 96, n_tok}, Codes::all, random, true);
  const auto product = [&] {
    std::vector<float> y(n_rows * n_tok);
    kernels.matmul_i8(y.data(), n_rows, o.x, n_tok, o.w, nullptr);
    return y;
  };
  const std::vector<float> raised = product();
  o.x.raised = false;
  report.expect(product() != raised, "raised codes are not read as such");
  for (std::int8_t& code : o.x_codes) code = static_cast<std::int8_t>(code - 128);
  report.expect(product() == raised, "other sums of raised codes");
}

void check_matmul_i8(const Kernels& kernels, Report& report) {
  Random random;
  for (const VariantI8 variant : {VariantI8::g32, VariantI8::g128}) {
    for (std::size_t n_cols = 0; n_cols <= 300; ++n_cols)
      check_case(kernels, {variant, 19, n_cols, 3}, Codes::all, random, report);
    for (std::size_t n_rows = 0; n_rows <= 81; ++n_rows)
      check_case(kernels, {variant, n_rows, 70, 1 + n_rows % 4}, Codes::all, random, report);
    for (std::size_t n_tok = 0; n_tok <= 100; ++n_tok)
      check_case(kernels, {variant, 33, 140, n_tok}, Codes::all, random, report);
    for (const Codes codes : {Codes::extremes, Codes::most_negative}) {
      for (const std::size_t n_cols : Sizes{1, 4, 31, 32, 33, 160, 257})
        check_case(kernels, {variant, 34, n_cols, 9}, codes, random, report);
      check_case(kernels, {variant, 34, 160, 37}, codes, random, report);  // in tiles of any instruction set
    }
    for (const std::size_t n_cols : Sizes{508, 512, 516, 1023, 1024, 1025, 1100})
      check_case(kernels, {variant, 35, n_cols, 13}, Codes::all, random, report);
    for (const std::size_t n_cols : Sizes{3068, 3072, 3076, 3100})  // columns in stretches
      check_case(kernels, {variant, 35, n_cols, 19}, Codes::all, random, report);
    check_case(kernels, {variant, 3, 2100, 300}, Codes::all, random, report);  // tokens in passes
    for (const std::size_t n_tok : Sizes{97, 98})  // the last of which has one or two
      check_case(kernels, {variant, 70, 3200, n_tok}, Codes::all, random, report);
    check_case(kernels, {variant, 35, 6148, 97}, Codes::all, random, report);  // as long as any has them
    for (const std::size_t n_rows :
         Sizes{65, 147})  // a token alone, with one and with more panels to a place
      check_case(kernels, {variant, n_rows, 1100, 1}, Codes::all, random, report);
    check_case(kernels, {variant, 18, 5000, 130}, Codes::all, random,
               report);  // more tokens than stay in the L2 cache
    for (const std::size_t n_tok : Sizes{3, 37}) {
      check_poisoned(kernels, variant, n_tok, false, random, report);
      if (reads_raised(kernels)) check_poisoned(kernels, variant, n_tok, true, random, report);
    }
  }
}

}  // namespace runnel::simd
