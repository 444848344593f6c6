// Frequencies of rotary positions, and what a file may say of them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/rope_loader.h"
#include "tests/support/require.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

constexpr std::size_t head_dim = 64;

using Add = std::function<void(GgufBuilder&)>;  // what a file says

template <class Use>
auto with_loader(const Add& add, Use use, std::size_t dim = head_dim)
    -> decltype(use(std::declval<RopeLoader&>())) {
  GgufBuilder builder;
  add(builder);
  const std::vector<std::byte> bytes = builder.build();
  auto file = GgufFile::parse(bytes, "file");
  if (!file) return file.error();
  const Shape shape{.head_dim = dim, .n_ctx_train = 2048};
  RopeLoader loader(*file, "llama", shape);
  return use(loader);
}

Result<RopeParams> load(const Add& add, std::size_t n_ctx = 2048) {
  return with_loader(add, [&](RopeLoader& loader) { return loader.load(n_ctx); });
}

// Radians a token of each pair, and the magnitude, from the angles at position 1.
struct Rotation {
  std::vector<double> frequencies;
  double magnitude = 0;
};
Rotation rotation(const Add& add, std::size_t n_ctx = 2048) {
  const Rope rope(require(load(add, n_ctx)));
  std::vector<float> cos(rope.n_pairs()), sin(rope.n_pairs());
  rope.angles(1, cos.data(), sin.data());
  Rotation found{{}, std::hypot(cos[0], sin[0])};
  for (std::size_t i = 0; i < cos.size(); ++i) found.frequencies.push_back(std::atan2(sin[i], cos[i]));
  return found;
}

double plain_frequency(std::size_t pair) {
  return std::pow(10000.0, -2.0 * static_cast<double>(pair) / head_dim);
}

TEST(Rope, turns_each_pair_slower_than_the_one_before) {
  const Rotation plain = rotation([](GgufBuilder&) {});
  ASSERT_EQ(plain.frequencies.size(), head_dim / 2);
  EXPECT_NEAR(plain.magnitude, 1.0, 1e-6);
  for (std::size_t i = 0; i < head_dim / 2; ++i)
    EXPECT_NEAR(plain.frequencies[i] / plain_frequency(i), 1.0, 1e-5) << i;
}

TEST(Rope, turns_slower_by_a_linear_factor) {
  const Rotation scaled = rotation([](GgufBuilder& b) { b.add("llama.rope.scaling.factor", 4.0f); });
  for (std::size_t i = 0; i < head_dim / 2; ++i)
    EXPECT_NEAR(scaled.frequencies[i] / plain_frequency(i), 0.25, 1e-5) << i;
}

TEST(Rope, divides_frequencies_by_factors_of_their_own) {
  std::vector<float> factors;
  for (std::size_t i = 0; i < head_dim / 2; ++i) factors.push_back(1.0f + static_cast<float>(i));
  const Rotation scaled =
      rotation([&](GgufBuilder& b) { b.tensor("rope_freqs.weight", {factors.size()}, factors); });
  for (std::size_t i = 0; i < head_dim / 2; ++i)
    EXPECT_NEAR(scaled.frequencies[i] / plain_frequency(i), 1.0 / factors[i], 1e-5) << i;
}

// Frequencies of a factor of 4 and an original context of 2,048, by the formulas of transformers
// (modeling_rope_utils.py, _compute_yarn_parameters) in Python: pairs up to 8 turn as they did, pairs from 21
// on four times slower.
TEST(Rope, goes_from_plain_to_slow_as_yarn_does) {
  const Rotation yarn = rotation([](GgufBuilder& b) {
    b.add("llama.rope.scaling.type", "yarn").add("llama.rope.scaling.factor", 4.0f);
    b.add("llama.rope.scaling.original_context_length", std::uint32_t{2048});
  });
  EXPECT_NEAR(yarn.magnitude, 1.138629436111989, 1e-6);
  for (const auto& [pair, frequency] :
       std::initializer_list<std::pair<std::size_t, double>>{{0, 1.0},
                                                             {1, 0.7498942093324559},
                                                             {8, 0.1},
                                                             {10, 0.049745578766838564},
                                                             {12, 0.024325212770525993},
                                                             {16, 0.005384615384615384},
                                                             {20, 0.0009730085108210396},
                                                             {24, 0.00025},
                                                             {31, 3.33380358040831e-05}})
    EXPECT_NEAR(yarn.frequencies[pair] / frequency, 1.0, 1e-5) << pair;
}

TEST(Rope, has_factors_for_short_and_for_long_contexts) {
  const auto add = [](GgufBuilder& b) {
    b.add("llama.rope.scaling.type", "longrope");
    b.add("llama.rope.scaling.original_context_length", std::uint32_t{512});
    b.tensor("rope_factors_short.weight", {head_dim / 2}, std::vector<float>(head_dim / 2, 2.0f));
    b.tensor("rope_factors_long.weight", {head_dim / 2}, std::vector<float>(head_dim / 2, 8.0f));
  };
  EXPECT_NEAR(rotation(add, 512).frequencies[0], 1.0 / 2, 1e-6);
  EXPECT_NEAR(rotation(add, 513).frequencies[0], 1.0 / 8, 1e-6);
  // A session whose size nobody chose has the short ones.
  const auto n_ctx_default = [](RopeLoader& loader) { return loader.n_ctx_default(); };
  EXPECT_EQ(*with_loader(add, n_ctx_default), 512u);
  EXPECT_EQ(*with_loader([](GgufBuilder&) {}, n_ctx_default), 2048u);
}

std::string refusal(const Add& add) {
  const auto params = load(add);
  return params ? "" : params.error().message;
}

TEST(Rope, refuses_numbers_that_no_rotation_has) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, float>>{{"freq_base", 1.0f},
                                                            {"freq_base", 1e16f},
                                                            {"scaling.factor", -1.0f},
                                                            {"scale_linear", 1e7f},
                                                            {"scaling.attn_factor", 1e7f}}) {
    const std::string key = std::string("llama.rope.") + name;
    const std::string message = refusal([&, number = value](GgufBuilder& b) { b.add(key, number); });
    EXPECT_NE(message.find(key + " is "), std::string::npos) << message;
    EXPECT_NE(message.find("which no rotation can have"), std::string::npos) << message;
  }
  EXPECT_NE(refusal([](GgufBuilder& b) {
              b.add("llama.rope.dimension_count", std::uint32_t{7});
            }).find("llama.rope.dimension_count is 7, which no rotation can have"),
            std::string::npos);
  EXPECT_NE(refusal([](GgufBuilder& b) {
              b.add("llama.rope.dimension_count", std::uint32_t{66});
            }).find("llama.rope.dimension_count"),
            std::string::npos);
  EXPECT_NE(refusal([](GgufBuilder& b) { b.add("llama.rope.scaling.type", "spiral"); }).find("\"spiral\""),
            std::string::npos);
}

TEST(Rope, names_the_width_of_heads_that_are_no_pairs) {
  for (const std::size_t dim : {std::size_t{1}, std::size_t{7}}) {
    const auto load = [](RopeLoader& loader) { return loader.load(2048); };
    const auto params = with_loader([](GgufBuilder&) {}, load, dim);
    ASSERT_FALSE(params);
    EXPECT_NE(params.error().message.find("heads have " + std::to_string(dim) + " numbers"),
              std::string::npos)
        << params.error().message;
  }
}

TEST(Rope, names_which_of_yarns_numbers_is_wrong) {
  for (const char* name : {"scaling.yarn_beta_fast", "scaling.yarn_beta_slow"}) {
    const std::string message = refusal([&](GgufBuilder& b) {
      b.add("llama.rope.scaling.type", "yarn");
      b.add(std::string("llama.rope.") + name, 0.0f);
    });
    EXPECT_NE(message.find(std::string("llama.rope.") + name + " is 0"), std::string::npos) << message;
  }
}

TEST(Rope, refuses_factors_of_another_size_and_those_that_cannot_divide) {
  const auto refused = [](std::size_t n, float last) {
    std::vector<float> factors(n, 1.0f);
    factors.back() = last;
    return refusal([&](GgufBuilder& b) { b.tensor("rope_freqs.weight", {n}, factors); });
  };
  EXPECT_EQ(refused(head_dim / 2, 1.0f), "");
  EXPECT_NE(refused(head_dim / 2 + 1, 1.0f).find("rope_freqs.weight has shape [33]"), std::string::npos);
  EXPECT_NE(refused(head_dim / 2, 0.0f).find("divides a frequency by 0"), std::string::npos);
  EXPECT_NE(refused(head_dim / 2, std::numeric_limits<float>::quiet_NaN()).find("divides a frequency by"),
            std::string::npos);
}

}  // namespace
}  // namespace runnel::test
