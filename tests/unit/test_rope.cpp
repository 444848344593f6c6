// Frequencies of rotary positions, and what a file may say of them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lib/model.h"
#include "lib/rope_loader.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

constexpr std::size_t head_dim = 64;

// A model of one layer and one head, all weights zero, with what `add` adds.
std::vector<std::byte> model_with(const std::function<void(GgufBuilder&)>& add) {
  constexpr std::uint64_t n_embd = head_dim, n_ff = 32, n_vocab = 8;
  GgufBuilder builder;
  builder.add("general.architecture", "llama");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"context_length", 2048},
                                                                    {"embedding_length", n_embd},
                                                                    {"block_count", 1},
                                                                    {"feed_forward_length", n_ff},
                                                                    {"attention.head_count", 1}})
    builder.add(std::string("llama.") + key, value);
  const auto zeros = [&](const char* name, const std::vector<std::uint64_t>& dims) {
    std::size_t n = 1;
    for (const std::uint64_t dim : dims) n *= dim;
    builder.tensor(name, dims, std::vector<float>(n));
  };
  zeros("token_embd.weight", {n_embd, n_vocab});
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    zeros(name, {n_embd});
  for (const char* name : {"q", "k", "v", "output"})
    zeros((std::string("blk.0.attn_") + name + ".weight").c_str(), {n_embd, n_embd});
  for (const char* name : {"gate", "up"})
    zeros((std::string("blk.0.ffn_") + name + ".weight").c_str(), {n_embd, n_ff});
  zeros("blk.0.ffn_down.weight", {n_ff, n_embd});
  add(builder);
  return builder.build();
}

// Radians a token of each pair, and the magnitude, from the angles at position 1.
struct Rotation {
  std::vector<double> frequencies;
  double magnitude = 0;
};
Rotation rotation(const std::function<void(GgufBuilder&)>& add, std::size_t n_ctx = 2048) {
  const std::vector<std::byte> bytes = model_with(add);
  const auto model = Model::from_memory(bytes, {});
  if (!model) throw std::runtime_error(model.error().message);
  const auto rope = (*model)->rope(n_ctx);
  if (!rope) throw std::runtime_error(rope.error().message);
  std::vector<float> cos(rope->n_pairs()), sin(rope->n_pairs());
  rope->angles(1, cos.data(), sin.data());
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
}

std::string refusal(const std::function<void(GgufBuilder&)>& add) {
  const auto model = Model::from_memory(model_with(add), {}, "file");
  return model ? "" : model.error().message;
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
  EXPECT_NE(refused(head_dim / 2 + 1, 1.0f).find("rope_freqs.weight has 33 numbers"), std::string::npos);
  EXPECT_NE(refused(head_dim / 2, 0.0f).find("divides a frequency by 0"), std::string::npos);
  EXPECT_NE(refused(head_dim / 2, std::numeric_limits<float>::quiet_NaN()).find("divides a frequency by"),
            std::string::npos);
}

}  // namespace
}  // namespace runnel::test
