// Which experts tokens go to, whatever the router says.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "lib/moe.h"
#include "lib/session/session.h"
#include "lib/speed_limits.h"
#include "tests/support/folder.h"
#include "tests/support/model_weights.h"
#include "tests/support/paths.h"

namespace runnel::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
constexpr std::size_t n_expert = 5, n_used = 3, n_tok = 7;

struct Choice {
  std::size_t expert;
  float weight;
};

// Experts of each token, the lower number first.
std::vector<std::vector<Choice>> choices(const Routing& routing) {
  std::vector<std::vector<Choice>> all(n_tok);
  for (std::size_t e = 0; e < n_expert; ++e) {
    const Routing::Share share = routing.of(e);
    for (std::size_t i = 0; i < share.n; ++i) all.at(share.tokens[i]).push_back({e, share.weights[i]});
  }
  return all;
}

std::vector<std::vector<Choice>> choices(const std::vector<float>& scores) {
  Routing routing(n_tok, n_expert, n_used);
  routing.assign(scores.data(), n_tok);
  return choices(routing);
}

void expect_different_experts(const std::vector<float>& scores) {
  for (const std::vector<Choice>& of_token : choices(scores)) {
    std::set<std::size_t> experts;
    for (const Choice& choice : of_token) experts.insert(choice.expert);
    EXPECT_EQ(of_token.size(), n_used);
    EXPECT_EQ(experts.size(), n_used);
  }
}

TEST(Routing, takes_the_best_and_weighs_them_by_their_softmax) {
  std::mt19937 random(3);
  std::vector<float> scores(n_tok * n_expert);
  for (float& score : scores) score = static_cast<float>(random() % 9) - 4;  // with ties, of which the first
  const auto all = choices(scores);
  for (std::size_t t = 0; t < n_tok; ++t) {
    const float* row = scores.data() + t * n_expert;
    std::vector<std::size_t> order(n_expert);
    for (std::size_t e = 0; e < n_expert; ++e) order[e] = e;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return row[a] > row[b]; });
    const float max = row[order[0]];
    float sum = 0;
    for (std::size_t i = 0; i < n_used; ++i) sum += std::exp(row[order[i]] - max);
    order.resize(n_used);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(all[t].size(), n_used);
    for (std::size_t i = 0; i < n_used; ++i) {
      EXPECT_EQ(all[t][i].expert, order[i]) << "token " << t;
      EXPECT_EQ(all[t][i].weight, std::exp(row[order[i]] - max) / sum);
    }
  }
}

TEST(Routing, takes_no_expert_twice_where_scores_are_no_numbers) {
  for (const float score : {nan, -inf, inf, 0.0f})
    expect_different_experts(std::vector<float>(n_tok * n_expert, score));
  std::mt19937 random(5);
  const float some[] = {nan, -nan, -inf, inf, -std::numeric_limits<float>::max(), 0.0f, 1.0f};
  for (int i = 0; i < 500; ++i) {
    std::vector<float> scores(n_tok * n_expert);
    for (float& score : scores) score = some[random() % std::size(some)];
    expect_different_experts(scores);
  }
}

// As many experts as a file may have, all of them used: a tenth of a second where choosing them is as
// sorting.
TEST(Routing, takes_no_time_to_speak_of_with_many_experts) {
  constexpr std::size_t n_many = 4096, n_rows = 64;
  std::mt19937 random(7);
  std::vector<float> scores(n_rows * n_many);
  for (float& score : scores) score = static_cast<float>(random() % 1000);
  Routing routing(n_rows, n_many, n_many);
  const auto start = std::chrono::steady_clock::now();
  routing.assign(scores.data(), n_rows);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  for (const std::size_t e : {std::size_t{0}, n_many - 1}) EXPECT_EQ(routing.of(e).n, n_rows);
}

TEST(Routing, gives_experts_without_probability_no_weight) {
  std::vector<float> scores(n_tok * n_expert, -inf);
  for (std::size_t t = 0; t < n_tok; ++t) scores[t * n_expert + 2] = 1.0f;
  for (const std::vector<Choice>& of_token : choices(scores)) {
    ASSERT_EQ(of_token.size(), n_used);
    for (const Choice& choice : of_token) EXPECT_EQ(choice.weight, choice.expert == 2 ? 1.0f : 0.0f);
  }
}

// Makes each token take n experts.
void set_n_used(const std::string& path, std::uint32_t n) {
  const std::string key = "llama.expert_used_count";
  std::string file = read_bytes(path);
  const std::size_t at = file.find(key);
  ASSERT_NE(at, std::string::npos);
  std::memcpy(file.data() + at + key.size() + sizeof(std::uint32_t), &n, sizeof n);  // after the type
  write_bytes(path, file);
}

// All tokens of a batch are alike here: an expert that each took twice would get more tokens than there are.
TEST(Routing, holds_in_a_model_that_computes_no_numbers) {
  const std::string name = "golden/llama-moe.gguf";
  RUNNEL_NEEDS_SHARED(name);
  const Folder folder;
  ModelWeights weights = ModelWeights::read(shared(name));
  for (float& value : weights.find("token_embd.weight")->values) value = nan;
  weights.write(folder.file("nan.gguf"), shared(name));
  set_n_used(folder.file("nan.gguf"), 2);
  const auto model = Model::open(folder.file("nan.gguf"), {});
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ((*model)->shape().n_expert_used, 2u);
  Settings settings;
  settings.threads = 1;
  settings.window = 64;
  settings.batch = 64;
  const auto session = Session::open(*model, settings);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_TRUE((*session)->feed(std::vector<Token>(64, 5), nullptr, nullptr));
  EXPECT_TRUE(std::isnan((*session)->logits()[0]));
}

// Which is a tensor like others in a model without experts: nothing takes a share of it.
TEST(Experts, that_no_model_asks_for_are_read_whole) {
  const Folder folder;
  ModelWeights weights = ModelWeights::read(demo_model());
  weights.write(folder.file("without"), demo_model());
  const std::string stray = "blk.0.ffn_down_exps.input_scale";
  weights.tensors[stray] = {{16, 16, 1, 1}, 2, std::vector<float>(256, 1.0f)};
  weights.order.push_back(stray);
  weights.write(folder.file("with"), demo_model());
  const auto without = Model::open(folder.file("without"), {}), with = Model::open(folder.file("with"), {});
  ASSERT_TRUE(without && with);
  EXPECT_EQ(decode_bytes(**with), decode_bytes(**without) + 256 * sizeof(float));
}

}  // namespace
}  // namespace runnel::test
