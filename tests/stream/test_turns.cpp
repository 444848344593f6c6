// The stream against its definition (slow_decoder.h) with a pinned prefix, by token and by turn, through more
// than 20 windows, for every kind of attention and of positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "lib/session/session.h"
#include "tests/stream/models.h"
#include "tests/stream/slow_decoder.h"
#include "tests/support/append.h"
#include "tests/support/numbers.h"

namespace runnel {
void PrintTo(Evict evict, std::ostream* out) { *out << (evict == Evict::turn ? "turn" : "token"); }
}  // namespace runnel

namespace {

using namespace runnel;
using namespace runnel::test;

constexpr SynthShape tiny_gemma2() {
  SynthShape shape = tiny("gemma2", 2);
  shape.post_norms = true;
  shape.sliding_window = 12;
  shape.attn_soft_cap = 2.0f;
  shape.logit_soft_cap = 3.0f;
  return shape;
}

constexpr SynthShape mha = tiny("llama", 4), gqa = tiny("llama", 2), mqa = tiny("llama", 1),
                     halves = tiny("qwen2", 2), gemma2 = tiny_gemma2();

struct Kind {
  const char* name;
  const SynthShape* shape;  // null: the golden model of this name
};

const Kind kinds[] = {
    {"mha", &mha},
    {"gqa", &gqa},
    {"mqa", &mqa},
    {"rope halves", &halves},
    {"native window, soft caps", &gemma2},
    {"gpt2-dense", nullptr},   // learned positions
    {"bloom-dense", nullptr},  // ALiBi
    {"falcon-dense", nullptr},
    {"gemma2-dense", nullptr},
    {"granite-dense", nullptr},
    {"llama-dense", nullptr},
    {"llama-moe", nullptr},
    {"phi3-dense", nullptr},
    {"qwen2-dense", nullptr},
    {"qwen3-dense", nullptr},
};

std::shared_ptr<const Model> model_of(const Kind& kind) {
  return kind.shape ? synthetic(*kind.shape) : golden(kind.name);
}

std::unique_ptr<Session> open_session(const std::shared_ptr<const Model>& model, Evict evict,
                                      std::int32_t window, std::int32_t batch) {
  Settings settings;
  settings.cache = CacheType::f32;
  settings.sinks = 2;
  settings.window = window;
  settings.batch = batch;
  settings.threads = 2;
  settings.evict = evict;
  return require(Session::open(model, settings));
}

// A session and the reference side by side. Both are given a stream of exchanges.
class Pair {
 public:
  Pair(const std::shared_ptr<const Model>& model, Evict evict, std::int64_t n_pinned, std::int32_t window,
       std::int32_t batch)
      : session(open_session(model, evict, window, batch)),
        slow(*model, static_cast<std::size_t>(n_pinned), static_cast<std::size_t>(2 + window - n_pinned),
             evict == Evict::turn),
        n_vocab_(model->shape().n_vocab) {
    EXPECT_TRUE(session->pin(n_pinned));
  }

  void begin_turn() {
    session->mark_turn(session->position());
    begins_turn_ = true;
  }

  void feed(std::span<const Token> tokens) {
    left_ = tokens;
    const auto compare = [](void* user, std::int64_t, const float* logits) {
      static_cast<Pair*>(user)->compare(logits);
      return 0;
    };
    EXPECT_TRUE(session->feed(tokens, compare, this));
    EXPECT_EQ(session->visible(), slow.visible());
  }

  std::unique_ptr<Session> session;
  SlowDecoder slow;
  double worst = 0;

 private:
  void compare(const float* logits) {
    const std::vector<double> expected = slow.read(left_.front(), begins_turn_);
    worst = std::max(worst, nmse(logits, expected.data(), n_vocab_));
    left_ = left_.subspan(1);
    begins_turn_ = false;
  }

  std::size_t n_vocab_;
  std::span<const Token> left_;
  bool begins_turn_ = false;
};

class Turns : public testing::TestWithParam<Evict> {};

// Exchanges from 1 token to more than the window holds, in pieces that do not care where they begin.
TEST_P(Turns, every_attention_through_20_windows_with_pins) {
  constexpr std::int32_t window = 22, batch = 10;
  constexpr std::int64_t n_pinned = 7;
  const std::size_t lengths[] = {5, 3, 9, 1, 6, 14, 2, 25, 4, 4, 1, 1, 8, 40, 7};
  const std::size_t pieces[] = {1, 4, 16, 2, 11};
  double worst = 0;
  bool has_all = true;
  for (const Kind& kind : kinds) {
    if (!kind.shape && !has_shared(std::string("golden/") + kind.name + ".gguf")) {
      has_all = false;
      continue;
    }
    const auto model = model_of(kind);
    const auto tokens = random_tokens(n_pinned + 21 * window, model->shape().n_vocab);
    Pair pair(model, GetParam(), n_pinned, window, batch);
    pair.feed(std::span(tokens).first(n_pinned));
    std::size_t turn = 0, piece = 0, left = 0;
    for (std::size_t at = n_pinned; at < tokens.size();) {
      if (left == 0) {
        left = lengths[turn++ % std::size(lengths)];
        pair.begin_turn();
      }
      const std::size_t n = std::min({left, pieces[piece++ % std::size(pieces)], tokens.size() - at});
      pair.feed(std::span(tokens).subspan(at, n));
      at += n;
      left -= n;
    }
    EXPECT_LT(pair.worst, 1e-9) << kind.name;
    worst = std::max(worst, pair.worst);
  }
  std::printf("largest NMSE: %.2g\n", worst);
  if (!has_all)
    GTEST_SKIP() << "reference data ../shared/golden is not here: only made-up models were checked";
}

// What smaller numbers in the cache cost does not grow with the stream.
TEST_P(Turns, every_cache_type_with_pins) {
  const auto model = synthetic(gqa);
  const auto tokens = random_tokens(500, model->shape().n_vocab);
  std::vector<std::vector<float>> logits;
  for (const CacheType type : {CacheType::f32, CacheType::f16, CacheType::i8}) {
    Settings settings;
    settings.cache = type;
    settings.window = 22;
    settings.batch = 10;
    settings.threads = 2;
    settings.evict = GetParam();
    auto session = Session::open(model, settings);
    ASSERT_TRUE(session);
    ASSERT_TRUE((*session)->pin(7));
    for (std::size_t at = 0; at < tokens.size(); at += 10) {
      if (at > 0) (*session)->mark_turn((*session)->position());
      ASSERT_TRUE((*session)->feed(std::span(tokens).subspan(at, 10), nullptr, nullptr));
    }
    logits.emplace_back((*session)->logits(), (*session)->logits() + model->shape().n_vocab);
  }
  EXPECT_LT(nmse(logits[1].data(), logits[0].data(), logits[0].size()), 1e-5);
  EXPECT_LT(nmse(logits[2].data(), logits[0].data(), logits[0].size()), 1e-3);
}

// Exchanges are taken back and others put in their place, before and after the window is full.
TEST(Rewind, to_what_is_held) {
  constexpr std::int32_t window = 22, batch = 24;
  constexpr std::int64_t n_pinned = 5;
  for (const Kind& kind : kinds) {
    if (!kind.shape) continue;
    const auto model = model_of(kind);
    const auto tokens = random_tokens(400, model->shape().n_vocab);
    Pair pair(model, Evict::turn, n_pinned, window, batch);
    pair.feed(std::span(tokens).first(n_pinned));
    std::size_t at = n_pinned;
    const auto exchange = [&](std::size_t n) {
      pair.begin_turn();
      pair.feed(std::span(tokens).subspan(at, n));
      at += n;
    };
    for (int round = 0; round < 10; ++round) {
      exchange(7);
      const std::int64_t position = pair.session->position();
      exchange(5);
      pair.slow.forget(5 + 1);
      pair.slow.read(tokens[at - 5 - 1]);  // the last that is left is read again
      EXPECT_TRUE(pair.session->rewind(position)) << position;
      EXPECT_NE(pair.session->logits(), nullptr);
      EXPECT_EQ(pair.session->visible(), pair.slow.visible());
      exchange(4);
    }
    EXPECT_LT(pair.worst, 1e-9) << kind.name;
  }
}

INSTANTIATE_TEST_SUITE_P(by, Turns, testing::Values(Evict::token, Evict::turn),
                         [](const auto& test) { return test.param == Evict::turn ? "turn" : "token"; });

// What a session sees, fed to a new one, and what both then make of the same tokens.
double distance_from_new(Session& session, const std::shared_ptr<const Model>& model, std::int32_t window,
                         std::int32_t batch, std::span<const Token> tokens) {
  const auto other = open_session(model, Evict::token, window, batch);
  EXPECT_TRUE(other->feed(session.visible(), nullptr, nullptr));
  const std::size_t n_vocab = model->shape().n_vocab;
  double worst = nmse(session.logits(), other->logits(), n_vocab);
  for (const Token token : tokens) {
    for (Session* each : {&session, other.get()}) EXPECT_TRUE(each->feed({&token, 1}, nullptr, nullptr));
    worst = std::max(worst, nmse(session.logits(), other->logits(), n_vocab));
  }
  return worst;
}

// Further back than a layer's own ring goes, all that is seen is read again.
TEST(Rewind, beyond_a_native_window) {
  constexpr std::int32_t window = 60, batch = 4;
  const auto model = synthetic(gemma2);
  const auto tokens = random_tokens(300, model->shape().n_vocab);
  const auto later = std::span(tokens).last(10);
  for (const std::size_t n_read : {50u, 200u}) {  // the window is not full, or is
    for (const std::int64_t n_back : {1, 4, 5, 20, 40}) {
      SCOPED_TRACE(std::to_string(n_back) + " back of " + std::to_string(n_read));
      const auto session = open_session(model, Evict::token, window, batch);
      ASSERT_TRUE(session->feed(std::span(tokens).first(n_read), nullptr, nullptr));
      const auto position = static_cast<std::int64_t>(n_read) - n_back;
      ASSERT_TRUE(session->rewind(position));
      EXPECT_EQ(session->position(), position);
      EXPECT_EQ(session->stats().reread_tokens > 0, n_back >= batch);  // and the last that is left
      if (n_read < window || n_back >= batch) {
        EXPECT_LT(distance_from_new(*session, model, window, batch, later), 1e-9);
      }
    }
  }
}

// A stop leaves a shorter stream.
TEST(Rewind, that_reads_again_can_be_stopped) {
  constexpr std::int32_t window = 60, batch = 4;
  const auto model = synthetic(gemma2);
  const auto tokens = random_tokens(70, model->shape().n_vocab);
  const auto session = open_session(model, Evict::token, window, batch);
  ASSERT_TRUE(session->feed(std::span(tokens).first(60), nullptr, nullptr));
  int n_calls = 0;
  session->set_progress([](void* calls, double) { return ++*static_cast<int*>(calls) == 3 ? 1 : 0; },
                        &n_calls);
  const Result<void> stopped = session->rewind(40);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().status, RUNNEL_STOPPED);
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(session->position(), 2 + 3 * batch);
  EXPECT_EQ(session->visible(), std::vector<Token>(tokens.begin(), tokens.begin() + session->position()));
  session->set_progress(nullptr, nullptr);
  session->begin_call();
  EXPECT_LT(distance_from_new(*session, model, window, batch, std::span(tokens).last(10)), 1e-9);
}

// Exchanges that begin in what is lost are no more.
TEST(Rewind, that_is_stopped_forgets_later_exchanges) {
  const auto model = synthetic(gemma2);
  const auto tokens = random_tokens(60, model->shape().n_vocab);
  const auto session = open_session(model, Evict::turn, 60, 4);
  ASSERT_TRUE(session->feed(std::span(tokens).first(30), nullptr, nullptr));
  session->mark_turn(30);
  ASSERT_TRUE(session->feed(std::span(tokens).last(30), nullptr, nullptr));
  int n_calls = 0;
  session->set_progress([](void* calls, double) { return ++*static_cast<int*>(calls) == 3 ? 1 : 0; },
                        &n_calls);
  ASSERT_FALSE(session->rewind(40));
  ASSERT_LT(session->position(), 30);
  EXPECT_TRUE(session->turns().all().empty());
}

// A file tells what each layer holds behind the prefix of then, whatever is pinned where it is loaded.
TEST(Saved, native_windows_under_another_pin) {
  const auto model = synthetic(gemma2);
  Settings settings;
  settings.sinks = 2;
  settings.window = gemma2.sliding_window + 2;
  settings.batch = 4;
  const Folder folder;
  const auto session = std::move(*Session::open(model, settings));
  const auto other = std::move(*Session::open(model, settings));
  ASSERT_TRUE(session->feed(random_tokens(60, gemma2.n_vocab), nullptr, nullptr));
  ASSERT_TRUE(session->save(folder.file("session")));
  ASSERT_TRUE(other->pin(6));  // its window is now shorter than the native one
  const auto loaded = other->load(folder.file("session"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (Session* each : {session.get(), other.get()})
    ASSERT_TRUE(each->feed(random_tokens(5, gemma2.n_vocab), nullptr, nullptr));
  EXPECT_TRUE(std::equal(session->logits(), session->logits() + gemma2.n_vocab, other->logits()));
}

// Whatever has left, the pinned prefix can be gone back to, and the stream is then as new.
TEST(Rewind, to_the_prefix_is_always_possible) {
  const auto model = synthetic(gqa);
  const auto tokens = random_tokens(300, model->shape().n_vocab);
  Pair pair(model, Evict::token, 5, 20, 8);
  EXPECT_TRUE(pair.session->feed(tokens, nullptr, nullptr));
  for (const std::int64_t position : {5, 3, 0}) {
    EXPECT_TRUE(pair.session->rewind(position));
    EXPECT_EQ(pair.session->position(), position);
    EXPECT_EQ(pair.session->logits() != nullptr, position > 0);
    EXPECT_EQ(pair.session->visible(), std::vector<Token>(tokens.begin(), tokens.begin() + position));
  }
  pair.feed(std::span(tokens).subspan(100, 100));
  EXPECT_LT(pair.worst, 1e-9);
}

// A character of several tokens comes whole, in whatever steps they are generated; the vocabulary has bytes.
TEST(Generate, gives_the_same_text_in_any_steps) {
  const auto model = synthetic(gqa);
  std::vector<std::string> texts;
  for (const std::int64_t step : {300, 7, 1}) {
    const auto session = open_session(model, Evict::token, 60, 16);
    ASSERT_TRUE(session->set("ignore_eos", "true"));
    ASSERT_TRUE(session->feed(random_tokens(5, gqa.n_vocab), nullptr, nullptr));
    std::string& text = texts.emplace_back();
    for (std::int64_t left = 300; left > 0; left -= step)
      ASSERT_TRUE(session->generate(std::min(step, left), append, &text));
  }
  EXPECT_GT(std::count_if(texts[0].begin(), texts[0].end(), begins_character), texts[0].size() / 4);
  EXPECT_LT(
      texts[0].find_first_of("\xC3\xC4\xC5\xC6\xC7\xC8\xC9\xCA\xCB\xCC\xCD\xCE\xCF\xD0\xD1\xD2\xD3\xD4\xD5"),
      texts[0].size());  // a character of two bytes, which can only be of two tokens
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

// A penalty that looks further back finds what is seen, whenever it is set.
TEST(Penalties, of_a_longer_window_count_what_was_read_before) {
  const auto model = synthetic(gqa);
  const auto tokens = random_tokens(40, model->shape().n_vocab);
  std::vector<std::vector<Token>> results;
  for (const char* first : {"64", "2"}) {
    const auto session = open_session(model, Evict::token, 60, 16);
    ASSERT_TRUE(session->set("temperature", "0"));
    ASSERT_TRUE(session->set("repetition_penalty", "5"));
    ASSERT_TRUE(session->set("penalty_window", first));
    ASSERT_TRUE(session->feed(tokens, nullptr, nullptr));
    ASSERT_TRUE(session->set("penalty_window", "64"));
    ASSERT_TRUE(session->generate(12, nullptr, nullptr));
    results.push_back(session->visible());
  }
  EXPECT_EQ(results[0], results[1]);
}

// It generates token 7, or 8 where the penalties count a 7.
std::unique_ptr<Session> preferring_7_unless_read(const std::shared_ptr<const Model>& model,
                                                  std::int32_t window) {
  auto session = open_session(model, Evict::token, window, 16);
  EXPECT_TRUE(session->set("temperature", "0"));
  EXPECT_TRUE(session->set("repetition_penalty", "10"));
  EXPECT_TRUE(session->set("logit_bias", "7=1000,8=500"));
  return session;
}

// Nor does one that is set to look further back forget what it looked at and the window has lost.
TEST(Penalties, of_a_longer_window_count_what_has_left) {
  const auto model = synthetic(gqa);
  for (const char* longer : {"64", "65"}) {
    const auto session = preferring_7_unless_read(model, 8);
    std::vector<Token> tokens(40, 100);
    tokens[5] = 7;
    ASSERT_TRUE(session->feed(tokens, nullptr, nullptr));
    ASSERT_TRUE(session->set("penalty_window", longer));
    EXPECT_EQ(*session->sample(), 8) << longer;
  }
}

// Greedy generation with a repetition penalty after a rewind is what it is without the detour.
TEST(Rewind, the_penalties_forget_too) {
  const auto model = synthetic(gqa);
  const auto tokens = random_tokens(40, model->shape().n_vocab);
  std::vector<std::vector<Token>> results;
  for (const bool detour : {false, true}) {
    const auto session = open_session(model, Evict::token, 60, 16);
    ASSERT_TRUE(session->set("temperature", "0"));
    ASSERT_TRUE(session->set("repetition_penalty", "5"));
    ASSERT_TRUE(session->feed(std::span(tokens).first(10), nullptr, nullptr));
    if (detour) {
      ASSERT_TRUE(session->feed(std::span(tokens).subspan(10), nullptr, nullptr));
      ASSERT_TRUE(session->rewind(10));
    }
    ASSERT_TRUE(session->generate(12, nullptr, nullptr));
    results.push_back(session->visible());
  }
  EXPECT_EQ(results[0], results[1]);
}

// Nor do they count the token that leaves a full window when the last that is left is read again.
TEST(Rewind, the_penalties_count_only_what_is_seen) {
  constexpr std::int32_t window = 20;
  const auto model = synthetic(gqa);
  for (const std::int64_t n_back : {10, 11}) {
    const auto session = preferring_7_unless_read(model, window);
    std::vector<Token> tokens(40, 100);
    tokens[9] = 7;
    ASSERT_TRUE(session->feed(tokens, nullptr, nullptr));
    ASSERT_TRUE(session->rewind(40 - n_back));
    const bool is_seen = 40 - n_back - window <= 9;
    EXPECT_EQ(*session->sample(), is_seen ? 8 : 7) << n_back << " back";
  }
}

}  // namespace
