// The product of weights in each format with one token and with many, against sums in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "lib/linear/blas.h"
#include "lib/linear/linear.h"
#include "tests/support/system_threads.h"

namespace runnel {
namespace {

using quant::TensorType;
using test::n_system_threads;
using Sizes = std::initializer_list<std::size_t>;

struct Case {
  TensorType type;
  std::size_t n_rows, n_cols, n_tok;
  // In the second panel an input of each 128 has weights so many times larger; its activations are as much
  // smaller.
  float factor = 1.0f;
  bool is_scaled(std::size_t col) const { return col % 128 == 20; }
  bool is_scaled(std::size_t row, std::size_t col) const {
    return row / simd::panel_rows == 1 && is_scaled(col);
  }
};

simd::Kernels best_kernels() {
  const simd::IsaRow* row = nullptr;
  return simd::select(nullptr, simd::cpu_features(), &row);
}

class Product {
 public:
  explicit Product(const Case& c) : case_(c), info_(quant::type_info(c.type)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    weights_.resize(c.n_rows * c.n_cols);
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = normal(random) * (c.is_scaled(i / c.n_cols, i % c.n_cols) ? c.factor : 1.0f);
    data_.resize(c.n_rows * quant::row_bytes(info_, c.n_cols));
    info_.encode(data_.data(), weights_.data(), weights_.size());
    info_.decode(weights_.data(), data_.data(), weights_.size());
    bias_.resize(c.n_rows);
    for (float& b : bias_) b = normal(random);
    x_.resize(c.n_tok * x_stride());
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] = normal(random) / (c.is_scaled(i % x_stride()) ? c.factor : 1.0f);
    linear_.type = &info_;
    linear_.data = data_.data();
    linear_.n_rows = c.n_rows;
    linear_.n_cols = c.n_cols;
    linear_.bias = bias_.data();
    linear_.scale = 0.5f;
  }

  std::vector<float> run(std::size_t n_threads) const {
    const simd::Kernels kernels = best_kernels();
    std::vector<float> y(case_.n_tok * y_stride(), untouched);
    std::vector<LinearScratch> scratch(n_threads, LinearScratch(kinds(), kernels, case_.n_cols));
    Int8Buffer int8(kernels, case_.n_tok, case_.n_cols);
    Int16Buffer int16(kernels, case_.n_tok, case_.n_cols);
    Bf16Buffer bf16(case_.n_tok, case_.n_cols);
    const Input x{
        {x_.data(), x_stride()}, quantized(kernels, int8), in_bf16(kernels, bf16), in_int16(kernels, int16)};
    Team team(n_threads);
    team.run([&](Thread& thread) {
      thread.share(shared_rows(kernels, {&linear_}, case_.n_tok, thread.count()), [&](const Piece& piece) {
        multiply(kernels, scratch[thread.index()], linear_, piece.items, linear_.begin_of(piece.next), x,
                 {y.data(), y_stride()}, case_.n_tok);
      });
    });
    return y;
  }

  // Of Q8_0 weights: the product of all of them, packed as in a file.
  std::vector<float> run_packed(const simd::Kernels& kernels) const {
    const quant::ShapeI8 shape{quant::VariantI8::g32, case_.n_rows, case_.n_cols};
    std::vector<std::int8_t> codes(shape.n_codes());
    std::vector<std::uint16_t> scales(shape.n_scales());
    kernels.pack_q8_0({shape, codes.data(), scales.data()},
                      reinterpret_cast<const quant::BlockQ8_0*>(data_.data()));
    Linear packed = linear_;
    packed.packed = {shape, codes.data(), scales.data()};
    std::vector<float> y(case_.n_tok * y_stride(), untouched);
    WeightKinds kinds;
    kinds.add(packed);
    LinearScratch scratch(kinds, kernels, case_.n_cols);
    Int8Buffer int8(kernels, case_.n_tok, case_.n_cols);
    Bf16Buffer bf16(case_.n_tok, case_.n_cols);
    const Input x{{x_.data(), x_stride()}, quantized(kernels, int8), in_bf16(kernels, bf16), {}};
    multiply(kernels, scratch, packed, {0, case_.n_rows}, nullptr, x, {y.data(), y_stride()}, case_.n_tok);
    return y;
  }

  bool reads_int8() const { return case_.n_tok >= kinds().int8_from() && !reads_bf16(); }
  bool reads_bf16() const { return case_.n_tok >= kinds().bf16_from(best_kernels()); }
  bool reads_int16() const { return case_.n_tok >= kinds().int16_from(best_kernels()); }
  // Int16 is not precise enough for panels with extreme inputs.
  bool multiplies_int16(std::size_t row) const {
    return reads_int16() && (case_.factor == 1.0f || row / simd::panel_rows != 1);
  }
  // That activations are rounded to at most, between zero and the largest.
  double steps(std::size_t row) const {
    if (reads_int8()) return 127;
    if (multiplies_int16(row)) return quant::i16_most;
    return case_.type == quant::TensorType::q8_0 && !reads_bf16() ? simd::factor_steps
                                                                  : std::numeric_limits<double>::infinity();
  }

  void expect_right(const std::vector<float>& y) const {
    for (std::size_t t = 0; t < case_.n_tok; ++t) {
      for (std::size_t r = 0; r < case_.n_rows; ++r) {
        double sum = 0, mass = 0, weights = 0, max = 0, max_weight = 0, inputs = 0;
        for (std::size_t c = 0; c < case_.n_cols; ++c) {
          const auto w = static_cast<double>(weights_[r * case_.n_cols + c]);
          const auto x = static_cast<double>(x_[t * x_stride() + c]);
          sum += w * x;
          mass += std::fabs(w * x);
          weights += std::fabs(w);
          inputs += std::fabs(x);
          max_weight = std::max(max_weight, std::fabs(w));
          max = std::max(max, std::fabs(x));
        }
        // Weights in int16 have 13 bits below a power of two that is at most twice the largest of them.
        const double rounding =
            max / steps(r) / 2 * weights + (multiplies_int16(r) ? max_weight * 0x1p-13 * inputs : 0.0);
        const double in_bf16 = reads_bf16() ? 0x1p-8 * mass : 0.0;  // half of a unit each
        const double exact = 0.5 * sum + static_cast<double>(bias_[r]);
        ASSERT_NEAR(static_cast<double>(y[t * y_stride() + r]), exact,
                    1e-7 * static_cast<double>(case_.n_cols) * mass + 0.5 * (rounding + in_bf16) + 1e-6)
            << "token " << t << ", row " << r;
      }
      for (std::size_t r = case_.n_rows; r < y_stride(); ++r)
        ASSERT_EQ(y[t * y_stride() + r], untouched) << "token " << t << ", past the last row";
    }
  }

 private:
  static constexpr float untouched = 12345.0f;

  WeightKinds kinds() const {
    WeightKinds kinds;
    kinds.add(linear_);
    return kinds;
  }
  quant::ActivationsI8 quantized(const simd::Kernels& kernels, Int8Buffer& buffer) const {
    const quant::ActivationsI8 x = buffer.of(case_.n_tok, case_.n_cols);
    kernels.quantize_i8(x, x_.data(), x_stride(), case_.n_tok);
    return x;
  }
  quant::ActivationsBf16 in_bf16(const simd::Kernels& kernels, Bf16Buffer& buffer) const {
    const quant::ActivationsBf16 x = buffer.of(case_.n_tok, case_.n_cols);
    kernels.round_bf16(x, x_.data(), x_stride(), case_.n_tok);
    return x;
  }
  quant::ActivationsI16 in_int16(const simd::Kernels& kernels, Int16Buffer& buffer) const {
    const quant::ActivationsI16 x = buffer.of(case_.n_tok, case_.n_cols);
    kernels.quantize_i16(x, x_.data(), x_stride(), case_.n_tok);
    return x;
  }
  std::size_t x_stride() const { return case_.n_cols + 3; }
  std::size_t y_stride() const { return case_.n_rows + 5; }

  Case case_;
  const quant::TypeInfo& info_;
  std::vector<float> weights_;  // as decoded
  std::vector<std::byte> data_;
  std::vector<float> bias_, x_;
  Linear linear_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One token and a few (matrix times vector), tiles of all sizes, blocks of columns (512) and of rows (256, by
// OpenBLAS 48 of 400).
TEST(Linear, EveryFormatAndShape) {
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16, TensorType::q8_0}) {
    for (const std::size_t n_rows : Sizes{1, 16, 47, 400}) {
      for (const std::size_t n_cols : Sizes{32, 512, 544, 1120}) {
        for (const std::size_t n_tok : Sizes{1, 3, 4, 23}) {
          SCOPED_TRACE(testing::Message() << quant::type_info(type).name << ", " << n_rows << " rows, "
                                          << n_cols << " columns, " << n_tok << " tokens");
          const Product product({type, n_rows, n_cols, n_tok});
          const std::vector<float> y = product.run(1);
          product.expect_right(y);
          EXPECT_TRUE(same_bits(y, product.run(2))) << "two threads have other bits";
          EXPECT_TRUE(same_bits(y, product.run(5))) << "five threads have other bits";
        }
      }
    }
  }
}

// In int8 also by the plain kernels.
TEST(Linear, ManyTokensMeetQ8_0AsItIsPacked) {
  const simd::IsaRow* row = nullptr;
  const simd::Kernels plain = simd::select("scalar", 0, &row), best = best_kernels();
  for (const std::size_t n_rows : Sizes{1, 16, 47, 100}) {
    for (const std::size_t n_cols : Sizes{32, 2048, 16416, 40000}) {  // one block, some, two panels a block
      for (const std::size_t n_tok : Sizes{9, 67}) {
        if (n_tok > 9 && n_cols > 2048) continue;  // would take long
        SCOPED_TRACE(testing::Message()
                     << n_rows << " rows, " << n_cols << " columns, " << n_tok << " tokens");
        const Product product({TensorType::q8_0, n_rows, n_cols, n_tok});
        EXPECT_NE(product.reads_int8(), product.reads_bf16());
        const std::vector<float> y = product.run(2);
        product.expect_right(y);
        EXPECT_TRUE(same_bits(y, product.run_packed(product.reads_int8() ? plain : best)));
      }
    }
  }
}

TEST(Linear, ColumnsThatFillNoBlock) {
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
    for (const std::size_t n_cols : Sizes{1, 7, 33, 515, 1037}) {
      SCOPED_TRACE(testing::Message() << quant::type_info(type).name << ", " << n_cols << " columns");
      const Product product({type, 50, n_cols, 14});
      const std::vector<float> y = product.run(1);
      product.expect_right(y);
      EXPECT_TRUE(same_bits(y, product.run(3)));
    }
  }
}

// Of weights that int16 would leave no bits of.
TEST(Linear, ExtremeInputsAreMultipliedPrecisely) {
  for (const TensorType type : {TensorType::f16, TensorType::bf16}) {
    for (const float factor : {1e4f, 1e-4f}) {
      for (const std::size_t n_rows : Sizes{20, 47, 400}) {
        for (const std::size_t n_cols : Sizes{32, 544, 1037}) {
          SCOPED_TRACE(testing::Message() << quant::type_info(type).name << ", " << n_rows << " rows, "
                                          << n_cols << " columns, factor " << factor);
          const Product product({type, n_rows, n_cols, 23, factor});
          const std::vector<float> y = product.run(1);
          product.expect_right(y);
          EXPECT_TRUE(same_bits(y, product.run(2))) << "two threads have other bits";
          EXPECT_TRUE(same_bits(y, product.run(5))) << "five threads have other bits";
        }
      }
    }
  }
}

// On whichever thread: those of a team share the work already.
TEST(Linear, OpenBlasStartsNoThreads) {
  if (!blas_is_usable()) GTEST_SKIP() << "a build without OpenBLAS";
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      constexpr std::size_t n = 512;
      const std::vector<float> w(n * n, 0.5f), x(n * n, 2.0f);
      std::vector<float> y(n * n);
      const auto before = n_system_threads();
      blas_multiply(w.data(), n, n, {x.data(), n}, {y.data(), n}, n);
      EXPECT_LE(n_system_threads(), before);
      EXPECT_EQ(y[n * n - 1], static_cast<float>(n));
    }).join();
  }
}

// An odd panel would be multiplied beside a copy of itself.
TEST(Linear, PiecesAreWholeTiles) {
  const simd::IsaRow* row = nullptr;
  const simd::Kernels kernels = simd::select("scalar", 0, &row);
  Linear w;
  w.type = &quant::type_info(TensorType::q8_0);
  const std::byte some{};
  w.data = &some;
  w.n_rows = 4096;
  w.n_cols = 2048;
  for (const std::size_t n_tok : Sizes{1, 2, 512}) {
    const SharedWork work = shared_rows(kernels, {&w}, n_tok, 2);
    EXPECT_EQ(work.n, w.n_rows);
    EXPECT_EQ(work.n_pieces, 8u);  // of half a megabyte and less
    EXPECT_EQ(work.multiple, simd::panel_rows);
    EXPECT_EQ(work.piece_multiple, 4 * simd::panel_rows);
  }
  EXPECT_EQ(shared_rows(kernels, {&w, &w}, 1, 17).n_pieces, 2u);  // two times half a megabyte a thread
  EXPECT_EQ(shared_rows(kernels, {&w}, 1, 17).n_pieces, 1u);      // so little that nobody else begins with it
}

}  // namespace
}  // namespace runnel
