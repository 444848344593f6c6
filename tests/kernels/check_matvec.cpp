#include <cmath>
#include <limits>
#include <vector>

#include "quant/q8_0.h"
#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

// w: n_rows rows of row_size elements. value(r, c) is the weight in double. Each `rounded` numbers of x may
// be rounded together; 0: none are.
template <class T, class Fn, class Value>
void compare_matvec(Fn fn, const Guarded<T>& w, std::size_t n_rows, std::size_t row_size, std::size_t n_cols,
                    std::size_t rounded, Random& random, Value value, Report& report) {
  Guarded<float> x(n_cols);
  Guarded<float> y(n_rows);
  fill(x, random, n_cols % 2 == 1);
  fn(y.data(), w.data(), n_rows, n_cols, x.data());
  report.expect(y.intact(), "[%zu, %zu] wrote before y", n_rows, n_cols);
  std::vector<double> roundings;
  for (std::size_t c = 0; rounded != 0 && c < n_cols; c += rounded)
    roundings.push_back(rounding_tolerance(x.data() + c, rounded));
  for (std::size_t r = 0; r < n_rows; ++r) {
    double exact = 0.0;
    double mass = 0.0;
    double rounding = 0.0;
    for (std::size_t c = 0; c < n_cols; ++c) {
      const double product = value(r, c) * static_cast<double>(x[c]);
      exact += product;
      mass += std::fabs(product);
      if (rounded != 0) rounding += std::fabs(value(r, c)) * roundings[c / rounded];
    }
    report.near(static_cast<double>(y[r]), exact, sum_tolerance(mass, n_cols) + rounding,
                "[%zu, %zu] row %zu", n_rows, n_cols, r);
    float alone = 0.0f;
    fn(&alone, w.data() + r * row_size, 1, n_cols, x.data());
    report.expect(same_bits(&alone, &y[r], 1), "[%zu, %zu] row %zu alone has other bits", n_rows, n_cols, r);
  }
}

std::vector<std::size_t> row_counts() { return {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 14}; }

// One token, and others beside it: the same bits.
template <class Format, class Fn>
void check_few(Fn fn, Report& report) {
  using T = typename Format::Element;
  Random random;
  std::vector<std::size_t> col_counts = {256, 1000, 4099};
  for (std::size_t n = 0; n <= 130; ++n) col_counts.push_back(n);
  const auto one = [fn](float* y, const T* w, std::size_t n_rows, std::size_t n_cols, const float* x) {
    fn(y, n_rows, w, n_rows, n_cols, x, n_cols, 1);
  };
  for (const std::size_t n_cols : col_counts) {
    for (const std::size_t n_rows : row_counts()) {
      Guarded<T> w(n_rows * n_cols);
      for (T& element : w) element = Format::make(random.number());
      compare_matvec(
          one, w, n_rows, n_cols, n_cols, 0, random,
          [&](std::size_t r, std::size_t c) { return Format::value(w[r * n_cols + c]); }, report);
      const std::size_t n_tok = n_cols % 23;
      const std::size_t x_stride = n_cols + n_rows % 3, y_stride = n_rows + n_cols % 2;
      Guarded<float> x(extent(n_tok, x_stride, n_cols));
      Guarded<float> y(extent(n_tok, y_stride, n_rows));
      fill(x, random);
      for (float& v : y) v = untouched;
      fn(y.data(), y_stride, w.data(), n_rows, n_cols, x.data(), x_stride, n_tok);
      report.expect(y.intact(), "[%zu, %zu] %zu tokens: wrote before y", n_rows, n_cols, n_tok);
      std::vector<float> alone(y_stride, untouched);
      for (std::size_t t = 0; t < n_tok; ++t) {
        one(alone.data(), w.data(), n_rows, n_cols, x.data() + t * x_stride);
        report.expect(same_bits(&y[t * y_stride], alone.data(), t + 1 == n_tok ? n_rows : y_stride),
                      "[%zu, %zu] %zu tokens: token %zu has other bits than alone", n_rows, n_cols, n_tok, t);
      }
    }
  }
}

}  // namespace

void check_matmul_few_f32(const Kernels& kernels, Report& report) {
  check_few<FormatF32>(kernels.matmul_few_f32, report);
}
void check_matmul_few_f16(const Kernels& kernels, Report& report) {
  check_few<FormatF16>(kernels.matmul_few_f16, report);
}
void check_matmul_few_bf16(const Kernels& kernels, Report& report) {
  check_few<FormatBf16>(kernels.matmul_few_bf16, report);
}

void check_most_few(const Kernels& kernels, Report& report) {
  for (const std::size_t n_bytes : Sizes{2, 4})
    report.expect(kernels.most_few(n_bytes) > 0, "not even a single token");
}

void check_matvec_q8_0(const Kernels& kernels, Report& report) {
  constexpr std::size_t size = quant::BlockQ8_0::size;
  Random random;
  // 163 and 164: the longest rows that lie in an L1 cache and the shortest that do not; 513 and 1025: past
  // what is multiplied at a time.
  std::vector<std::size_t> block_counts = {163, 164, 513, 1025};
  for (std::size_t n = 0; n <= 17; ++n) block_counts.push_back(n);
  for (const std::size_t n_blocks : block_counts) {
    for (const std::size_t n_rows : n_blocks > 17 ? std::vector<std::size_t>{1, 13} : row_counts()) {
      Guarded<quant::BlockQ8_0> w(n_rows * n_blocks);
      for (quant::BlockQ8_0& block : w) {
        block.d = quant::f32_to_f16(random.number(n_blocks % 3 == 2) * 0.01f);
        for (std::int8_t& q : block.qs) q = static_cast<std::int8_t>(random.bits());
      }
      compare_matvec(
          kernels.matvec_q8_0, w, n_rows, n_blocks, n_blocks * size, size, random,
          [&](std::size_t r, std::size_t c) {
            const quant::BlockQ8_0& block = w[r * n_blocks + c / size];
            return static_cast<double>(quant::f16_to_f32(block.d)) * block.qs[c % size];
          },
          report);
    }
  }
  // What is not finite does not get lost, even where it meets weights of 0.
  std::vector<quant::BlockQ8_0> zeros(2 * 5);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(2 * size, 1.0f);
    x[40] = bad;
    std::vector<float> y(5);
    kernels.matvec_q8_0(y.data(), zeros.data(), y.size(), x.size(), x.data());
    for (const float one : y) report.expect(!std::isfinite(one), "%g in x is lost", static_cast<double>(bad));
  }
}

}  // namespace runnel::simd
