// The arithmetic of the quantiser: balancing factors, error feedback.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "lib/quantize/balance.h"
#include "lib/quantize/feedback.h"

namespace runnel {
namespace {

std::vector<float> random_numbers(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(n);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

TEST(BalanceFactors, leaves_ordinary_channels_alone) {
  const std::vector<double> columns = {1.0, 0.3, 3.0, 1.2, 0.9};
  EXPECT_TRUE(balance_factors(columns, {}).empty());
}

TEST(BalanceFactors, brings_an_outlying_channel_to_the_median) {
  std::vector<double> columns(9, 2.0);
  columns[4] = 2e-3;
  columns[7] = 2e4;
  const std::vector<float> factors = balance_factors(columns, {});
  ASSERT_EQ(factors.size(), 9u);
  EXPECT_FLOAT_EQ(factors[4], 1e3f);
  EXPECT_FLOAT_EQ(factors[7], 1e-4f);
  EXPECT_EQ(factors[0], 1.0f);
}

TEST(BalanceFactors, does_not_see_how_the_size_is_shared_between_gain_and_columns) {
  // A channel whose inputs are s times larger and whose columns s times smaller gets a factor s times larger.
  std::vector<double> columns(8, 1.0), inputs(8, 3.0);
  columns[2] /= 100;
  inputs[2] *= 100;
  const std::vector<float> factors = balance_factors(columns, inputs);
  ASSERT_EQ(factors.size(), 8u);
  EXPECT_FLOAT_EQ(factors[2], 100.0f);
}

TEST(BalanceFactors, leaves_channels_without_a_size_alone) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> columns = {1.0, 0.0, 1.0, 1e-9, nan, 1.0, inf};
  const std::vector<float> factors = balance_factors(columns, {});
  ASSERT_EQ(factors.size(), 7u);
  for (const std::size_t c : {1u, 4u, 6u}) EXPECT_EQ(factors[c], 1.0f) << c;
  EXPECT_EQ(factors[3], 0x1p20f);  // not more
  const std::vector<double> ones(7, 1.0), inputs = {1.0, 1.0, 0.0, nan, inf, 1e12, 1.0};
  const std::vector<float> by_inputs = balance_factors(ones, inputs);
  ASSERT_EQ(by_inputs.size(), 7u);
  for (const std::size_t c : {2u, 3u, 4u}) EXPECT_EQ(by_inputs[c], 1.0f) << c;
  EXPECT_EQ(by_inputs[5], 1e6f);
  EXPECT_TRUE(balance_factors(std::vector<double>(5, 0.0), {}).empty());
}

TEST(ColumnSizes, counts_rows_by_their_shape) {
  constexpr std::size_t n_rows = 50, n_cols = 40;
  std::vector<float> rows = random_numbers(n_rows * n_cols, 1);
  Team team(1);
  ColumnSizes plain(n_cols), scaled(n_cols);
  plain.add(team, rows.data(), n_rows);
  for (std::size_t c = 0; c < n_cols; ++c) rows[3 * n_cols + c] *= 1e4f;
  scaled.add(team, rows.data(), n_rows);
  for (std::size_t c = 0; c < n_cols; ++c) EXPECT_NEAR(plain.rms()[c], scaled.rms()[c], 1e-6);
}

TEST(ColumnSizes, is_the_same_for_every_team) {
  constexpr std::size_t n_rows = 33, n_cols = 70;
  const std::vector<float> rows = random_numbers(n_rows * n_cols, 2);
  Team one(1), three(3);
  ColumnSizes a(n_cols), b(n_cols);
  a.add(one, rows.data(), n_rows);
  b.add(three, rows.data(), n_rows);
  EXPECT_EQ(a.rms(), b.rms());
}

SecondMoments moments_of(const std::vector<float>& x, std::size_t n_cols) {
  SecondMoments m{n_cols, x.size() / n_cols, std::vector<float>(SecondMoments::n_sums(n_cols))};
  for (std::size_t t = 0; t < m.n_tokens; ++t)
    for (std::size_t i = 0; i < n_cols; ++i)
      for (std::size_t j = i; j < n_cols && j / feedback_group == i / feedback_group; ++j)
        m.sums[i * feedback_group + j % feedback_group] += x[t * n_cols + i] * x[t * n_cols + j];
  return m;
}

// Mean over tokens of the squared error of a row's product.
double product_error(const std::vector<float>& x, const std::vector<float>& w, const std::int8_t* codes,
                     const std::uint16_t* scales) {
  const std::size_t n_cols = w.size();
  double sum = 0;
  for (std::size_t t = 0; t < x.size() / n_cols; ++t) {
    double error = 0;
    for (std::size_t c = 0; c < n_cols; ++c) {
      const float scale = quant::scale_value_i8(scales[c / 128], quant::VariantI8::g128);
      error += static_cast<double>(x[t * n_cols + c]) *
               (static_cast<double>(w[c]) - static_cast<double>(codes[c]) * static_cast<double>(scale));
    }
    sum += error * error;
  }
  return sum;
}

// Inputs [n_tokens, n_cols] that go together: mixtures of a few hidden ones.
std::vector<float> mixed_inputs(std::size_t n_tokens, std::size_t n_cols) {
  constexpr std::size_t n_hidden = 24;
  const std::vector<float> mix = random_numbers(n_hidden * n_cols, 3),
                           hidden = random_numbers(n_tokens * n_hidden, 4);
  std::vector<float> x(n_tokens * n_cols);
  for (std::size_t t = 0; t < n_tokens; ++t)
    for (std::size_t h = 0; h < n_hidden; ++h)
      for (std::size_t c = 0; c < n_cols; ++c)
        x[t * n_cols + c] += hidden[t * n_hidden + h] * mix[h * n_cols + c];
  return x;
}

TEST(Feedback, lowers_the_error_of_products_with_inputs_like_those_seen) {
  constexpr std::size_t n_cols = 200;  // a short last group
  const std::vector<float> x = mixed_inputs(2000, n_cols);
  Team team(2);
  const Feedback feedback(team, moments_of(x, n_cols), {});
  double nearest_error = 0, feedback_error = 0;
  for (unsigned row = 0; row < 8; ++row) {
    const std::vector<float> w = random_numbers(n_cols, 10 + row);
    std::vector<float> left = w;
    std::int8_t codes[n_cols];
    std::uint16_t scales[2], nearest_scales[2];
    feedback.quantize_row(codes, scales, left.data(), quant::VariantI8::g128);
    feedback_error += product_error(x, w, codes, scales);
    ASSERT_EQ(quant::quantize_row_i8(codes, nearest_scales, w.data(), n_cols, quant::VariantI8::g128),
              n_cols);
    nearest_error += product_error(x, w, codes, nearest_scales);
    EXPECT_EQ(scales[0], nearest_scales[0]);
    EXPECT_EQ(scales[1], nearest_scales[1]);
  }
  EXPECT_LT(feedback_error, 0.5 * nearest_error);
}

TEST(Feedback, is_rounding_to_nearest_where_inputs_do_not_go_together) {
  constexpr std::size_t n_cols = 150;
  SecondMoments moments{n_cols, 10, std::vector<float>(SecondMoments::n_sums(n_cols))};
  for (std::size_t c = 0; c < n_cols; ++c) moments.sums[c * feedback_group + c % feedback_group] = 10.0f;
  Team team(1);
  const Feedback feedback(team, moments, {});
  const std::vector<float> w = random_numbers(n_cols, 5);
  for (const auto variant : {quant::VariantI8::g32, quant::VariantI8::g128}) {
    std::vector<float> left = w;
    std::vector<std::int8_t> codes(n_cols), nearest(n_cols);
    std::vector<std::uint16_t> scales(5), nearest_scales(5);
    feedback.quantize_row(codes.data(), scales.data(), left.data(), variant);
    ASSERT_EQ(quant::quantize_row_i8(nearest.data(), nearest_scales.data(), w.data(), n_cols, variant),
              n_cols);
    EXPECT_EQ(codes, nearest);
    EXPECT_EQ(scales, nearest_scales);
  }
}

TEST(Feedback, counts_inputs_as_balancing_leaves_them) {
  constexpr std::size_t n_cols = 16, n_tokens = 300;
  std::vector<float> x = random_numbers(n_tokens * n_cols, 6), factors(n_cols, 1.0f);
  for (std::size_t t = 0; t < n_tokens; ++t) x[t * n_cols + 1] += x[t * n_cols];
  factors[3] = 256.0f;
  std::vector<float> balanced = x;
  for (std::size_t t = 0; t < n_tokens; ++t) balanced[t * n_cols + 3] /= factors[3];
  Team team(1);
  const Feedback a(team, moments_of(x, n_cols), factors), b(team, moments_of(balanced, n_cols), {});
  std::vector<float> w = random_numbers(n_cols, 7), v = w;
  std::vector<std::int8_t> codes_a(n_cols), codes_b(n_cols);
  std::uint16_t scale_a, scale_b;
  a.quantize_row(codes_a.data(), &scale_a, w.data(), quant::VariantI8::g128);
  b.quantize_row(codes_b.data(), &scale_b, v.data(), quant::VariantI8::g128);
  EXPECT_EQ(codes_a, codes_b);
}

// Of weights near the largest float the errors passed on add up to more.
TEST(Feedback, keeps_what_is_left_finite) {
  constexpr std::size_t n_cols = 128;
  Team team(1);
  const Feedback feedback(team, moments_of(mixed_inputs(400, n_cols), n_cols), {});
  for (const float size : {0x1p126f, std::numeric_limits<float>::max()}) {
    for (const auto variant : {quant::VariantI8::g32, quant::VariantI8::g128}) {
      std::vector<float> w = random_numbers(n_cols, 13);
      for (float& value : w) value = std::copysign(size, value);
      std::int8_t codes[n_cols];
      std::uint16_t scales[4];
      feedback.quantize_row(codes, scales, w.data(), variant);
      for (std::size_t c = 0; c < n_cols; ++c) {
        EXPECT_TRUE(std::isfinite(w[c])) << size << ", column " << c << ": " << w[c];
        EXPECT_GE(codes[c], -127) << c;
      }
    }
  }
}

TEST(Feedback, takes_any_moments) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, inf, -1.0f, std::nanf("")}) {
    SecondMoments moments{20, 1, std::vector<float>(SecondMoments::n_sums(20), value)};
    Team team(1);
    const Feedback feedback(team, moments, {});
    std::vector<float> w = random_numbers(20, 8);
    const std::vector<float> before = w;
    std::vector<std::int8_t> codes(20), nearest(20);
    std::uint16_t scale, nearest_scale;
    feedback.quantize_row(codes.data(), &scale, w.data(), quant::VariantI8::g128);
    quant::quantize_row_i8(nearest.data(), &nearest_scale, before.data(), 20, quant::VariantI8::g128);
    EXPECT_EQ(codes, nearest) << value;
  }
}

}  // namespace
}  // namespace runnel
