// The stream against its definition (slow_decoder.h): prefix and window as one text with positions in the
// cache.
#include <gtest/gtest.h>

#include <cstdio>

#include "lib/session/session.h"
#include "tests/stream/models.h"
#include "tests/stream/slow_decoder.h"
#include "tests/support/numbers.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel;
using namespace runnel::test;

struct Case {
  const char* model;
  std::int32_t sinks, window, batch;
};

// Largest error over the tokens, when they are fed in pieces of these sizes in turn.
double worst_error(const std::shared_ptr<const Model>& model, Settings settings,
                   std::span<const Token> tokens, const std::vector<std::size_t>& pieces) {
  settings.cache = CacheType::f32;
  const auto session = require(Session::open(model, settings));
  struct Check {
    SlowDecoder slow;
    std::span<const Token> tokens;
    std::size_t n_vocab;
    double worst = 0;
  } check{SlowDecoder(*model, static_cast<std::size_t>(settings.sinks),
                      static_cast<std::size_t>(settings.window)),
          tokens, model->shape().n_vocab};
  const auto compare = [](void* user, std::int64_t position, const float* logits) {
    auto* c = static_cast<Check*>(user);
    const std::vector<double> expected = c->slow.read(c->tokens[static_cast<std::size_t>(position)]);
    c->worst = std::max(c->worst, nmse(logits, expected.data(), c->n_vocab));
    return 0;
  };
  for (std::size_t at = 0, i = 0; at < tokens.size(); ++i) {
    const std::size_t n = std::min(pieces[i % pieces.size()], tokens.size() - at);
    require(session->feed(tokens.subspan(at, n), compare, &check));
    at += n;
  }
  return check.worst;
}

class Exactness : public testing::TestWithParam<Case> {};

// 400 tokens: many windows of eviction, fed token by token, in batches, and in turns of both.
TEST_P(Exactness, every_family_through_eviction) {
  const Case& c = GetParam();
  RUNNEL_NEEDS_SHARED(std::string("golden/") + c.model + ".gguf");
  const auto model = golden(c.model);
  const auto tokens = random_tokens(400, model->shape().n_vocab);
  Settings settings;
  settings.sinks = c.sinks;
  settings.window = c.window;
  settings.batch = c.batch;
  settings.threads = 2;
  for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{1}, {400}, {1, 7, 50, 2}}) {
    const double error = worst_error(model, settings, tokens, pieces);
    EXPECT_LT(error, 1e-11) << c.model << ", pieces of " << pieces.front();
  }
}

INSTANTIATE_TEST_SUITE_P(
    families, Exactness,
    testing::Values(Case{"llama-dense", 4, 20, 16}, Case{"llama-dense", 0, 24, 64},
                    Case{"llama-dense", 4, 1, 3}, Case{"llama-moe", 2, 17, 8}, Case{"qwen2-dense", 4, 20, 16},
                    Case{"qwen3-dense", 4, 20, 16},
                    Case{"gemma2-dense", 4, 40, 16},  // native window of 16 in every other layer
                    Case{"gemma2-dense", 4, 13, 8},   // the native window reaches into the sinks
                    Case{"phi3-dense", 4, 20, 16},
                    Case{"gpt2-dense", 4, 20, 16},  // learned positions: half of the window is read again
                    Case{"granite-dense", 4, 20, 16}, Case{"falcon-dense", 4, 20, 16},
                    Case{"bloom-dense", 4, 20, 16}),
    [](const auto& test) {
      return test_name(test.param.model) + "_" + std::to_string(test.param.sinks) + "_" +
             std::to_string(test.param.window);
    });

// The bundled model, 5,000 tokens.
TEST(Exactness, bundled_model) {
  const auto model = open_file(demo_model_f32());
  auto tokens = random_tokens(5000, model->shape().n_vocab);
  tokens[0] = model->tokenizer()->bos();
  Settings settings;
  settings.sinks = 4;
  settings.window = 20;
  settings.batch = 64;
  settings.threads = 2;
  const double error = worst_error(model, settings, tokens, {300, 1, 1, 40});
  std::printf("largest NMSE over 5,000 tokens: %.2g\n", error);
  EXPECT_LT(error, 1e-9);
}

// A window that is longer than a run of keys (256) and than what one thread takes of a token's keys (1,024),
// by batch until it is full and token by token while it moves on; by batch and token by token where the ring,
// of 1,399 slots, begins anew in the second of those parts.
TEST(Exactness, long_window) {
  const auto model = synthetic(tiny("llama", 2));
  const auto tokens = random_tokens(2650, model->shape().n_vocab);
  Settings settings;
  settings.sinks = 4;
  settings.window = 1300;
  settings.batch = 100;
  settings.threads = 2;
  std::vector<std::size_t> pieces(402, 1);
  pieces[0] = 1200;
  pieces[301] = 1000;
  const double error = worst_error(model, settings, tokens, pieces);
  std::printf("largest NMSE over 2,650 tokens: %.2g\n", error);
  EXPECT_LT(error, 1e-9);
}

}  // namespace
