#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "lib/session/sampler.h"
#include "lib/splitmix64.h"
#include "tests/support/allocations.h"

namespace runnel {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Everything off but the draw.
Settings plain() {
  Settings settings;
  settings.top_k = 0;
  settings.top_p = 1.0f;
  settings.min_p = 0.0f;
  settings.temperature = 1.0f;
  return settings;
}

Settings greedy() {
  Settings settings;
  settings.temperature = 0.0f;
  return settings;
}

std::vector<float> random_logits(std::size_t n, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::vector<float> logits(n);
  for (float& l : logits) l = (static_cast<float>(random() % 20001) / 10000.0f - 1.0f) * spread;
  return logits;
}

// ---- the chain once more, by full sorts over plain lists ----

struct Likely {
  Token id;
  double logit;
};

double softmax_sum(const std::vector<Likely>& list) {
  double sum = 0.0;
  for (const Likely& l : list) sum += std::exp(l.logit);
  return sum;
}

template <class Key>
void slow_keep_mass(std::vector<Likely>& list, double mass, Key key) {
  const double sum = softmax_sum(list);
  std::stable_sort(list.begin(), list.end(),
                   [&](const Likely& a, const Likely& b) { return key(a) < key(b); });
  double reached = 0.0;
  std::size_t n = 0;
  while (n < list.size() && reached < mass) reached += std::exp(list[n++].logit) / sum;
  list.resize(n);
}

Token slow_sample(const std::vector<float>& logits, const Settings& s, double uniform) {
  std::vector<Likely> list;
  for (std::size_t i = 0; i < logits.size(); ++i) list.push_back({static_cast<Token>(i), double{logits[i]}});
  const auto by_logit = [](const Likely& l) { return -l.logit; };
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < list.size()) {
    std::stable_sort(list.begin(), list.end(), [&](auto& a, auto& b) { return by_logit(a) < by_logit(b); });
    list.resize(static_cast<std::size_t>(s.top_k));
  }
  if (s.typical_p < 1.0f) {
    const double sum = softmax_sum(list);
    double entropy = 0.0;
    for (const Likely& l : list) {
      const double p = std::exp(l.logit) / sum;
      entropy -= p * std::log(p);
    }
    slow_keep_mass(list, s.typical_p,
                   [&](const Likely& l) { return std::abs(-std::log(std::exp(l.logit) / sum) - entropy); });
  }
  if (s.top_p < 1.0f) slow_keep_mass(list, s.top_p, by_logit);
  if (s.min_p > 0.0f) {
    double best = -1e300;
    for (const Likely& l : list) best = std::max(best, l.logit);
    std::erase_if(list, [&](const Likely& l) { return std::exp(l.logit - best) < double{s.min_p}; });
  }
  double sum = 0.0;
  for (const Likely& l : list) sum += std::exp(l.logit / s.temperature);
  double partial = 0.0;
  for (const Likely& l : list) {
    partial += std::exp(l.logit / s.temperature) / sum;
    if (partial > uniform) return l.id;
  }
  return list.back().id;
}

// SplitMix64 as published; the first output for seed 0 is e220a8397b1dcdaf.
double splitmix_uniform(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) / 9007199254740992.0;
}

void expect_same_as_slow(const Settings& settings, std::size_t n_vocab, float spread) {
  auto sampler = Sampler::create(settings, n_vocab);
  ASSERT_TRUE(sampler);
  std::uint64_t state = settings.seed;
  for (unsigned i = 0; i < 200; ++i) {
    const auto logits = random_logits(n_vocab, i, spread);
    ASSERT_EQ(sampler->sample(logits), slow_sample(logits, settings, splitmix_uniform(state)))
        << "draw " << i;
  }
}

// The published first number, of the library and of what this test holds it against.
TEST(Sampler, GeneratorIsSplitMix64) {
  constexpr std::uint64_t first = 0xe220a8397b1dcdafu;
  EXPECT_EQ(splitmix64(0), first);
  std::uint64_t state = 0;
  EXPECT_EQ(splitmix_uniform(state), static_cast<double>(first >> 11) / 9007199254740992.0);
}

TEST(Sampler, EachStepAgreesWithFullSorts) {
  for (const std::size_t n_vocab : {std::size_t{1}, std::size_t{7}, std::size_t{700}}) {
    for (const float spread : {0.5f, 10.0f}) {
      Settings s = plain();
      s.seed = 0xfedcba9876543210u;
      expect_same_as_slow(s, n_vocab, spread);
      s.temperature = 0.3f;
      expect_same_as_slow(s, n_vocab, spread);
      s.temperature = 1.0f;
      s.top_k = 5;
      expect_same_as_slow(s, n_vocab, spread);
      s.top_k = 300;
      expect_same_as_slow(s, n_vocab, spread);
      s.top_k = 0;
      s.top_p = 0.9f;
      expect_same_as_slow(s, n_vocab, spread);
      s.top_p = 1.0f;
      s.min_p = 0.07f;
      expect_same_as_slow(s, n_vocab, spread);
      s.min_p = 0.0f;
      s.typical_p = 0.6f;
      expect_same_as_slow(s, n_vocab, spread);
    }
  }
}

TEST(Sampler, WholeChainAgreesWithFullSorts) {
  Settings s;
  s.seed = 7;
  s.typical_p = 0.95f;
  expect_same_as_slow(s, 500, 4.0f);
  s.top_k = 0;
  expect_same_as_slow(s, 500, 4.0f);
  s.temperature = 3.0f;
  expect_same_as_slow(s, 500, 4.0f);
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  auto sampler = Sampler::create(plain(), 4);
  ASSERT_TRUE(sampler);
  const float logits[] = {std::log(0.1f), std::log(0.2f), std::log(0.3f), std::log(0.4f)};
  int n[4] = {};
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) ++n[sampler->sample(logits)];
  for (int t = 0; t < 4; ++t)
    EXPECT_NEAR(n[t] / double{draws}, 0.1 * (t + 1), 0.01);  // over 6 standard deviations
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  auto sampler = Sampler::create(greedy(), 5);
  ASSERT_TRUE(sampler);
  EXPECT_EQ(sampler->sample(std::vector<float>{1, 3, 2, 3, 0}), 1);
  EXPECT_EQ(sampler->sample(std::vector<float>{nan, -5, nan, -inf, -6}), 1);
  EXPECT_EQ(sampler->sample(std::vector<float>{nan, -inf, inf, 0, inf}), 2);
  EXPECT_EQ(sampler->sample(std::vector<float>(5, nan)), -1);
  EXPECT_EQ(sampler->sample(std::vector<float>(5, -inf)), -1);

  for (std::size_t n = 1; n < 100; ++n) {
    auto wide = Sampler::create(greedy(), n);
    ASSERT_TRUE(wide);
    auto logits = random_logits(n, static_cast<unsigned>(n), 3.0f);
    logits[n / 2] = nan;
    logits[n / 3] = logits[n - 1] = 4.0f;
    EXPECT_EQ(wide->sample(logits), static_cast<Token>(n / 3)) << n;
  }
}

TEST(Sampler, TopKKeepsTheLowestOfEquals) {
  Settings s = plain();
  s.top_k = 2;
  auto sampler = Sampler::create(s, 1000);
  ASSERT_TRUE(sampler);
  std::vector<float> logits(1000, 1.0f);
  logits[900] = 2.0f;
  std::map<Token, int> seen;
  for (int i = 0; i < 200; ++i) ++seen[sampler->sample(logits)];
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen.count(900) && seen.count(0));
}

TEST(Sampler, WhatIsNotFiniteIsDefined) {
  for (Settings s : {plain(), Settings{}}) {
    s.typical_p = 0.9f;
    auto sampler = Sampler::create(s, 4);
    ASSERT_TRUE(sampler);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(sampler->sample(std::vector<float>(4, nan)), -1);
      EXPECT_EQ(sampler->sample(std::vector<float>(4, -inf)), -1);
      EXPECT_EQ(sampler->sample(std::vector<float>{nan, -inf, 1.0f, nan}), 2);
      EXPECT_EQ(sampler->sample(std::vector<float>{0.0f, inf, -inf, nan}), 1);
      EXPECT_EQ(sampler->sample(std::vector<float>{-3e38f, 3e38f, -3e38f, 3e37f}), 1);
    }
  }
}

TEST(Sampler, TemperatureNearZeroIsGreedy) {
  Settings s = plain();
  s.temperature = 1e-38f;
  auto sampler = Sampler::create(s, 300);
  ASSERT_TRUE(sampler);
  for (unsigned i = 0; i < 50; ++i) {
    auto logits = random_logits(300, i, 5.0f);
    logits[i] = 5.01f;
    EXPECT_EQ(sampler->sample(logits), static_cast<Token>(i));
  }
}

TEST(Sampler, LogitBias) {
  Settings s = greedy();
  s.logit_bias = {{0, -inf}, {2, 1.5f}};
  auto sampler = Sampler::create(s, 4);
  ASSERT_TRUE(sampler);
  EXPECT_EQ(sampler->sample(std::vector<float>{9, 2, 1, 0}), 2);
  EXPECT_EQ(sampler->sample(std::vector<float>{9, 3, 1, 0}), 1);
  s.temperature = 1.0f;
  ASSERT_TRUE(sampler->configure(s));
  for (int i = 0; i < 100; ++i) EXPECT_NE(sampler->sample(std::vector<float>{9, 2, 1, 0}), 0);
}

TEST(Sampler, BiasOutsideTheVocabularyIsRefused) {
  Settings s = greedy();
  auto sampler = Sampler::create(s, 4);
  ASSERT_TRUE(sampler);
  s.logit_bias = {{4, 1.0f}};
  s.temperature = 1.0f;
  const auto result = sampler->configure(s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "logit_bias: expected token ids from 0 to 3, got 4");
  EXPECT_EQ(sampler->sample(std::vector<float>{0, 0, 0, 1}), 3) << "still greedy";
  EXPECT_FALSE(Sampler::create(s, 4));
  EXPECT_FALSE(Sampler::create(greedy(), 0));
}

// Logits after the penalties, read off by which rival a greedy sampler prefers.
TEST(Sampler, PenaltiesAreAsPublished) {
  Settings s = greedy();
  s.penalty_window = 4;
  const auto prefers_rival = [&](float logit, float rival) {
    auto sampler = Sampler::create(s, 3);
    for (const Token t : {1, 1, 0, 1, 1, 0}) sampler->accept(t);  // the window holds 0, 1, 1, 0
    return sampler->sample(std::vector<float>{-inf, logit, rival}) == 2;
  };
  s.repetition_penalty = 2.0f;
  EXPECT_TRUE(prefers_rival(4.0f, 2.01f));
  EXPECT_FALSE(prefers_rival(4.0f, 1.99f));
  EXPECT_TRUE(prefers_rival(-4.0f, -7.99f));
  EXPECT_FALSE(prefers_rival(-4.0f, -8.01f));
  s.repetition_penalty = 1.0f;
  s.presence_penalty = 0.5f;
  EXPECT_TRUE(prefers_rival(1.0f, 0.51f));
  EXPECT_FALSE(prefers_rival(1.0f, 0.49f));
  s.frequency_penalty = 0.25f;
  EXPECT_TRUE(prefers_rival(1.0f, 0.01f));  // 1 - 0.5 - 2 * 0.25 = 0
  EXPECT_FALSE(prefers_rival(1.0f, -0.01f));
  s.repetition_penalty = 2.0f;
  EXPECT_TRUE(prefers_rival(3.0f, 0.51f));  // 3 / 2 - 0.5 - 2 * 0.25
  EXPECT_FALSE(prefers_rival(3.0f, 0.49f));
  s.penalty_window = 0;
  EXPECT_FALSE(prefers_rival(3.0f, 2.99f));
}

TEST(Sampler, CountsFollowTheWindow) {
  constexpr std::size_t window = 10;
  RecentTokens recent;
  recent.resize(window, 5);
  std::mt19937 random(1);
  std::vector<Token> all;
  for (int i = 0; i < 1000; ++i) {
    const auto token = static_cast<Token>(random() % 5);
    all.push_back(token);
    recent.push(token);
    recent.push(-1);
    recent.push(5);
    const std::size_t n = std::min(window, all.size());
    const std::vector<Token> last(all.end() - static_cast<std::ptrdiff_t>(n), all.end());
    ASSERT_EQ(recent.tokens(), last);
    std::int32_t total = 0;
    for (const auto& [t, count] : recent.counts()) {
      ASSERT_EQ(count, std::count(last.begin(), last.end(), t));
      total += count;
    }
    ASSERT_EQ(total, static_cast<std::int32_t>(n));
  }
  const std::vector<Token> last = recent.tokens();
  recent.resize(3, 5);
  EXPECT_EQ(recent.tokens(), std::vector<Token>(last.end() - 3, last.end()));
  recent.resize(100, 5);
  EXPECT_EQ(recent.tokens().size(), 3u);
}

TEST(Sampler, SeedsAndStateRepeat) {
  Settings s;
  s.seed = 5;
  s.frequency_penalty = 0.3f;
  auto a = Sampler::create(s, 100);
  auto b = Sampler::create(s, 100);
  ASSERT_TRUE(a && b);
  const auto run = [](Sampler& sampler, unsigned n) {
    std::vector<Token> out;
    for (unsigned i = 0; i < n; ++i) {
      out.push_back(sampler.sample(random_logits(100, i, 1.0f)));
      sampler.accept(out.back());
    }
    return out;
  };
  const auto first = run(*a, 50);
  EXPECT_EQ(run(*b, 50), first);
  const SamplerState state = a->state();
  const auto second = run(*a, 50);
  EXPECT_NE(second, first);
  a->restore(state);
  EXPECT_EQ(run(*a, 50), second);
  a->reset();
  EXPECT_EQ(run(*a, 50), first);

  // New settings leave history and random numbers alone, a new seed does not.
  ASSERT_TRUE(b->configure(s));
  EXPECT_EQ(run(*b, 50), second);
  s.seed = 6;
  ASSERT_TRUE(b->configure(s));
  EXPECT_EQ(b->state().random, 6u);
}

TEST(Sampler, SamplingAllocatesNothing) {
  constexpr std::size_t n_vocab = 5000;
  const auto logits = random_logits(n_vocab, 3, 6.0f);
  std::vector<float> rising(n_vocab);
  std::iota(rising.begin(), rising.end(), 0.0f);
  Settings all = Settings{};
  all.typical_p = 0.9f;
  all.repetition_penalty = 1.1f;
  all.logit_bias = {{3, 1.0f}};
  Settings without_top_k = all;
  without_top_k.top_k = 0;
  for (const Settings& s : {greedy(), plain(), all, without_top_k}) {
    auto sampler = Sampler::create(s, n_vocab);
    ASSERT_TRUE(sampler);
    const std::size_t before = test::n_allocations();
    for (int i = 0; i < 100; ++i) {
      sampler->accept(sampler->sample(i % 2 ? logits : rising));
    }
    EXPECT_EQ(test::n_allocations(), before);
  }
}

}  // namespace
}  // namespace runnel
