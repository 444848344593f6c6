// The C surface as an app meets it: good use, misuse, and values that no caller should send.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "tests/support/append.h"
#include "tests/support/continuation.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

std::vector<std::int32_t> story(const runnel_model* model, std::size_t n) {
  std::string text;
  while (text.size() < n * 6) text += "Can you find me a cheap hotel in Paris for two people, please? ";
  auto tokens = tokenize(model, text, RUNNEL_ADD_BOS);
  tokens.resize(n);
  return tokens;
}

class Api : public testing::Test {
 protected:
  ModelHandle model = open_model(demo_model());
  const std::size_t n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
};

TEST_F(Api, null_handles_and_pointers_are_errors_or_harmless) {
  std::size_t n = 0;
  std::int32_t token = 0;
  EXPECT_EQ(runnel_config_new(nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_config_set(nullptr, "seed", "1"), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_model_open(nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_open(nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_feed(nullptr, &token, 1, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_generate(nullptr, 1, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_open(nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_say(nullptr, "x", 1, 1, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_tokenize(model.get(), nullptr, 5, 0, nullptr, 0, &n), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_tokenize(model.get(), "abc", 3, 0, nullptr, 7, &n), RUNNEL_BAD_ARGUMENT);
  EXPECT_STREQ(runnel_config_get(nullptr, "seed"), nullptr);
  EXPECT_EQ(runnel_session_logits(nullptr), nullptr);
  EXPECT_EQ(runnel_model_meta_key(model.get(), SIZE_MAX), nullptr);
  EXPECT_EQ(runnel_model_tensor_name(model.get(), SIZE_MAX), nullptr);
  EXPECT_EQ(runnel_model_tensor_dim(model.get(), 0, 99), 1);
  EXPECT_EQ(runnel_setting_name(SIZE_MAX), nullptr);
  runnel_config_free(nullptr);
  runnel_model_close(nullptr);
  runnel_session_close(nullptr);
  runnel_chat_close(nullptr);
  runnel_session_stop(nullptr);
}

TEST_F(Api, errors_say_what_is_wrong) {
  runnel_model* none = nullptr;
  EXPECT_EQ(runnel_model_open("/nonexistent/model.gguf", nullptr, &none), RUNNEL_IO);
  EXPECT_NE(std::strstr(runnel_last_error(), "/nonexistent/model.gguf"), nullptr) << runnel_last_error();
  runnel_config* c = nullptr;
  ASSERT_EQ(runnel_config_new(&c), RUNNEL_OK);
  const Config config(c, runnel_config_free);
  for (const char* window : {"-1", "9223372036854775808", "x", "", "1e3", "0x10"}) {
    EXPECT_EQ(runnel_config_set(c, "window", window), RUNNEL_BAD_ARGUMENT) << window;
    EXPECT_NE(std::strstr(runnel_last_error(), "window"), nullptr) << runnel_last_error();
  }
  EXPECT_EQ(runnel_config_set(c, "no_such_setting", "1"), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::strstr(runnel_last_error(), "no_such_setting"), nullptr);
}

TEST_F(Api, every_status_has_a_name_of_its_own) {
  std::set<std::string> names = {runnel_status_name(static_cast<runnel_status>(RUNNEL_INTERNAL + 1))};
  EXPECT_EQ(names.count("unknown status"), 1u);
  for (int status = RUNNEL_OK; status <= RUNNEL_INTERNAL; ++status)
    EXPECT_TRUE(names.insert(runnel_status_name(static_cast<runnel_status>(status))).second) << status;
}

TEST_F(Api, bad_tokens_and_counts) {
  const auto vocabulary = open_model(demo_model(), {{"vocab_only", "true"}});
  const auto session = open_session(model.get());
  for (const std::int32_t bad : {-1, INT32_MIN, INT32_MAX, static_cast<std::int32_t>(n_vocab)}) {
    const std::int32_t tokens[] = {1, bad};
    const std::string expected = "token 1 of 2 is " + std::to_string(bad) + ", expected an id from 0 to " +
                                 std::to_string(n_vocab - 1);
    EXPECT_EQ(runnel_session_feed(session.get(), tokens, 2, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
    EXPECT_EQ(runnel_last_error(), expected);
    for (const runnel_model* each : {model.get(), vocabulary.get()}) {
      std::size_t n = 0;
      char text[64];
      EXPECT_EQ(runnel_detokenize(each, tokens, 2, 1, text, sizeof text, &n), RUNNEL_BAD_ARGUMENT);
      EXPECT_EQ(runnel_last_error(), expected);
    }
  }
  EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), 0);  // nothing was read of a bad batch
  std::int32_t token = 0;
  EXPECT_EQ(runnel_session_sample(session.get(), &token), RUNNEL_BAD_ARGUMENT);  // nothing to go on from
  EXPECT_EQ(runnel_session_generate(session.get(), 5, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_generate(session.get(), -2, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_generate(session.get(), INT64_MIN, nullptr, nullptr, nullptr),
            RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_feed(session.get(), nullptr, 0, nullptr, nullptr), RUNNEL_OK);
  EXPECT_EQ(runnel_session_set(session.get(), "window", "10"), RUNNEL_BAD_ARGUMENT);
}

TEST_F(Api, a_vocabulary_alone_runs_nothing) {
  const auto vocabulary = open_model(demo_model(), {{"vocab_only", "true"}});
  const std::string expected = demo_model() + ": opened for its vocabulary only, without weights to run";
  runnel_session* session = nullptr;
  EXPECT_EQ(runnel_session_open(vocabulary.get(), nullptr, &session), RUNNEL_UNSUPPORTED);
  EXPECT_EQ(runnel_last_error(), expected);
  std::int64_t cache_bytes = 0, scratch_bytes = 0;
  EXPECT_EQ(runnel_model_session_bytes(vocabulary.get(), nullptr, &cache_bytes, &scratch_bytes),
            RUNNEL_UNSUPPORTED);
  EXPECT_EQ(runnel_last_error(), expected);
  runnel_arithmetic arithmetic{};
  EXPECT_EQ(runnel_model_prompt_arithmetic(vocabulary.get(), nullptr, &arithmetic), RUNNEL_UNSUPPORTED);
  EXPECT_EQ(runnel_last_error(), expected);
}

TEST_F(Api, tokenize_reports_the_size_it_needs) {
  std::size_t n = 0;
  std::int32_t one = 0;
  EXPECT_EQ(runnel_tokenize(model.get(), "hello there", 11, RUNNEL_ADD_BOS, &one, 1, &n),
            RUNNEL_BUFFER_TOO_SMALL);
  EXPECT_GT(n, 1u);
  const auto tokens = tokenize(model.get(), "hello there", RUNNEL_TEXT_ONLY);
  char text[64];
  ASSERT_EQ(runnel_detokenize(model.get(), tokens.data(), tokens.size(), 0, text, sizeof text, &n),
            RUNNEL_OK);
  EXPECT_EQ(std::string(text, n), "hello there");
}

// However a text is cut into feeds, the session reads the same text.
TEST_F(Api, feeding_in_pieces_is_feeding_at_once) {
  const auto tokens = story(model.get(), 700);
  std::vector<float> last[2];
  for (const int pieces : {0, 1}) {
    const auto session = open_session(model.get(), {{"window", "60"}, {"batch", "32"}, {"cache", "f32"}});
    if (pieces == 0) {
      feed(session.get(), tokens);
    } else {
      for (std::size_t at = 0, n = 1; at < tokens.size(); at += n, n = n % 37 + 5)
        require(runnel_session_feed(session.get(), tokens.data() + at, std::min(n, tokens.size() - at),
                                    nullptr, nullptr));
    }
    const float* logits = runnel_session_logits(session.get());
    last[pieces].assign(logits, logits + n_vocab);
    EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), 700);
    EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_USED), 64);
    EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_EVICTED), 700 - 64);
  }
  for (std::size_t i = 0; i < n_vocab; ++i) EXPECT_NEAR(last[0][i], last[1][i], 2e-3);
}

TEST_F(Api, same_seed_same_text_at_any_number_of_threads) {
  std::string texts[3];
  for (const int threads : {1, 2, 3}) {
    const auto session =
        open_session(model.get(), {{"threads", std::to_string(threads)}, {"seed", "42"}, {"window", "100"}});
    require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
    require(runnel_session_set(session.get(), "ignore_eos", "true"));
    require(runnel_session_generate(session.get(), 300, append, &texts[threads - 1], nullptr));
  }
  EXPECT_GT(texts[0].size(), 300u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
}

TEST_F(Api, a_model_may_be_closed_before_its_sessions) {
  auto session = open_session(model.get());
  model.reset();
  require(runnel_session_feed_text(session.get(), "Hello", 5, RUNNEL_ADD_BOS));
  std::string text;
  require(runnel_session_generate(session.get(), 5, append, &text, nullptr));
  EXPECT_FALSE(text.empty());
}

TEST_F(Api, a_model_from_memory_is_the_same_model) {
  std::ifstream in(demo_model(), std::ios::binary | std::ios::ate);
  const auto n = static_cast<std::size_t>(in.tellg());
  const std::unique_ptr<char, decltype(&std::free)> data(
      static_cast<char*>(std::aligned_alloc(64, (n + 63) / 64 * 64)), std::free);
  in.seekg(0);
  in.read(data.get(), static_cast<std::streamsize>(n));
  runnel_model* m = nullptr;
  require(runnel_model_open_memory(data.get(), n, nullptr, &m));
  const ModelHandle from_memory(m, runnel_model_close);
  std::string texts[2];
  for (const runnel_model* which : std::initializer_list<const runnel_model*>{model.get(), m}) {
    const auto session = open_session(which, {{"temperature", "0"}});
    require(runnel_session_feed_text(session.get(), "I want", 6, RUNNEL_ADD_BOS));
    require(runnel_session_generate(session.get(), 20, append, &texts[which == m], nullptr));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(runnel_model_open_memory(data.get() + 1, n - 1, nullptr, &m), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_model_open_memory(data.get(), n / 2, nullptr, &m), RUNNEL_BAD_FILE);
}

TEST_F(Api, stop_texts_end_the_text_and_are_not_part_of_it) {
  const auto session = open_session(model.get(), {{"temperature", "0"}, {"ignore_eos", "true"}});
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  std::string whole, cut;
  require(runnel_session_generate(session.get(), 40, append, &whole, nullptr));
  ASSERT_GT(whole.size(), 30u);
  const std::string stop = whole.substr(12, 6);
  require(runnel_session_reset(session.get()));
  require(runnel_session_set(session.get(), "stop", stop.c_str()));
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  runnel_finish finish = RUNNEL_FINISH_LENGTH;
  require(runnel_session_generate(session.get(), 40, append, &cut, &finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_STOP_TEXT);
  EXPECT_EQ(cut, whole.substr(0, whole.find(stop)));
  const std::int64_t n_read = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION);

  require(runnel_session_reset(session.get()));
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  std::string given;
  finish = RUNNEL_FINISH_LENGTH;
  for (int i = 0; i < 40 && finish == RUNNEL_FINISH_LENGTH; ++i)
    require(runnel_session_generate(session.get(), 1, append, &given, &finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_STOP_TEXT) << "though it was asked for token by token";
  EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), n_read);
  EXPECT_TRUE(whole.starts_with(given) && given.size() >= cut.size()) << given;
}

// What was held back, lest it be the start of a stop text, comes with the token that it ends with.
TEST_F(Api, each_piece_comes_with_its_last_token) {
  const auto session = open_session(model.get(), {{"temperature", "0"}, {"ignore_eos", "true"}});
  std::string whole;
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  require(runnel_session_generate(session.get(), 12, append, &whole, nullptr));
  require(runnel_session_reset(session.get()));
  require(runnel_session_set(session.get(), "stop", (whole.substr(whole.size() - 3) + "\x01").c_str()));
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  struct Last {
    std::string text;
    std::int32_t token;
  } last{"", -1};
  const auto keep_last = [](void* user, const char* text, std::size_t n_bytes, std::int32_t token) {
    *static_cast<Last*>(user) = {std::string(text, n_bytes), token};
    return 0;
  };
  runnel_finish finish = RUNNEL_FINISH_END;
  require(runnel_session_generate(session.get(), 12, keep_last, &last, &finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_LENGTH);
  EXPECT_EQ(last.text, whole.substr(whole.size() - 3));
  EXPECT_EQ(last.token, visible(session.get()).back());
}

TEST_F(Api, callbacks_and_stop_end_the_work) {
  const auto session = open_session(model.get(), {{"ignore_eos", "true"}});
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  runnel_finish finish = RUNNEL_FINISH_LENGTH;
  int calls = 0;
  require(runnel_session_generate(
      session.get(), 1000,
      [](void* user, const char*, std::size_t, std::int32_t) {
        return ++*static_cast<int*>(user) == 3 ? 1 : 0;
      },
      &calls, &finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_STOPPED);
  EXPECT_EQ(calls, 3);

  // From another thread, at any moment of an endless generation.
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> started{false};
    std::thread stopper([&] {
      while (!started) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(i * 37));
      runnel_session_stop(session.get());
    });
    const runnel_status status = runnel_session_generate(
        session.get(), -1,
        [](void* user, const char*, std::size_t, std::int32_t) {
          static_cast<std::atomic<bool>*>(user)->store(true);
          return 0;
        },
        &started, &finish);
    stopper.join();
    ASSERT_EQ(status, RUNNEL_OK) << runnel_last_error();
    ASSERT_EQ(finish, RUNNEL_FINISH_STOPPED);
  }

  // Reading stops too, and the session can go on.
  const auto tokens = story(model.get(), 2000);
  const auto stop_at_100 = [](void*, std::int64_t position, const float*) {
    return position % 1000 == 100 ? 1 : 0;
  };
  require(runnel_session_reset(session.get()));
  EXPECT_EQ(runnel_session_feed(session.get(), tokens.data(), tokens.size(), stop_at_100, nullptr),
            RUNNEL_STOPPED);
  EXPECT_LT(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), 2000);
  require(runnel_session_feed(session.get(), tokens.data(), 1, nullptr, nullptr));
}

// Bit n - 1: signal n is blocked.
std::uint64_t blocked_signals(const std::filesystem::path& task) {
  std::ifstream status(task / "status");
  std::string word;
  while (status >> word) {
    if (word == "SigBlk:" && status >> word) return std::stoull(word, nullptr, 16);
  }
  return 0;
}

TEST_F(Api, handles_are_null_after_an_error) {
  auto* const junk = reinterpret_cast<void*>(std::uintptr_t{1});
  auto* opened = static_cast<runnel_model*>(junk);
  EXPECT_NE(runnel_model_open("/no/such/file.gguf", nullptr, &opened), RUNNEL_OK);
  EXPECT_EQ(opened, nullptr);
  auto* session = static_cast<runnel_session*>(junk);
  EXPECT_NE(runnel_session_open(nullptr, nullptr, &session), RUNNEL_OK);
  EXPECT_EQ(session, nullptr);
  auto* chat = static_cast<runnel_chat*>(junk);
  EXPECT_NE(runnel_chat_open(nullptr, nullptr, &chat), RUNNEL_OK);
  EXPECT_EQ(chat, nullptr);
}

TEST_F(Api, biases_that_leave_no_token) {
  std::string all;
  for (std::int64_t i = 0; i < runnel_model_fact(model.get(), RUNNEL_N_VOCAB); ++i)
    all += (i > 0 ? "," : "") + std::to_string(i) + "=-inf";
  for (const char* temperature : {"0", "1"}) {
    const auto session = open_session(model.get(), {{"logit_bias", all}, {"temperature", temperature}});
    const auto tokens = story(model.get(), 4);
    feed(session.get(), tokens);
    std::int32_t token = 0;
    EXPECT_EQ(runnel_session_sample(session.get(), &token), RUNNEL_BAD_ARGUMENT);
    EXPECT_EQ(std::string(runnel_last_error()).rfind("logit_bias: ", 0), 0u) << runnel_last_error();
  }
}

TEST_F(Api, texts_of_a_chat_have_a_size) {
  const auto session = open_session(model.get());
  const auto chat = open_chat(session.get());
  constexpr std::size_t too_long = std::size_t{1} << 40;
  for (const runnel_status status :
       {runnel_chat_say(chat.get(), "Hello", too_long, 1, nullptr, nullptr, nullptr),
        runnel_chat_add(chat.get(), "Hello", too_long, "Hi", 2),
        runnel_chat_add(chat.get(), "Hello", 5, "Hi", too_long),
        runnel_chat_system(chat.get(), "Hello", too_long), runnel_chat_pin(chat.get(), "Hello", too_long)}) {
    EXPECT_EQ(status, RUNNEL_BAD_ARGUMENT);
    EXPECT_NE(std::string(runnel_last_error()).find("too long for one call"), std::string::npos);
  }
}

std::set<std::filesystem::path> threads_of_this_process() {
  std::set<std::filesystem::path> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) threads.insert(task.path());
  return threads;
}

TEST_F(Api, signals_are_for_the_threads_of_the_host) {
  const auto before = threads_of_this_process();  // those that are on their way out
  const auto session = open_session(model.get(), {{"threads", "2"}});
  const auto tokens = story(model.get(), 10);
  feed(session.get(), tokens);
  EXPECT_EQ(blocked_signals("/proc/thread-self") >> (SIGHUP - 1) & 1, 0u);
  int n_new = 0;
  for (const auto& thread : threads_of_this_process()) {
    if (before.count(thread) != 0) continue;
    ++n_new;
    const std::uint64_t blocked = blocked_signals(thread);
    EXPECT_EQ(blocked >> (SIGHUP - 1) & 1, 1u);
    EXPECT_EQ(blocked >> (SIGSEGV - 1) & 1, 0u);
  }
  EXPECT_EQ(n_new, 1);
}

// As an app brings back a conversation that it keeps as text.
TEST_F(Api, a_conversation_from_elsewhere_goes_on) {
  const std::string said = "I want to book a table for two in San Jose.", next = "At 7 pm please.";
  std::string answers[2];
  std::string answer;
  for (const bool is_added : {false, true}) {
    const auto session = open_session(model.get(), {{"temperature", "0"}});
    const ChatHandle chat = open_chat(session.get());
    if (is_added) {
      require(runnel_chat_add(chat.get(), said.data(), said.size(), answer.data(), answer.size()));
      EXPECT_EQ(answer, runnel_chat_message(chat.get(), 0, nullptr, nullptr));
      EXPECT_EQ(said, runnel_chat_message(chat.get(), 1, nullptr, nullptr));
      EXPECT_EQ(runnel_chat_add(chat.get(), said.data(), said.size(), nullptr, 1), RUNNEL_BAD_ARGUMENT);
      EXPECT_EQ(runnel_chat_add(nullptr, said.data(), said.size(), "Hi", 2), RUNNEL_BAD_ARGUMENT);
    } else {
      require(runnel_chat_say(chat.get(), said.data(), said.size(), 200, append, &answer, nullptr));
    }
    require(runnel_chat_say(chat.get(), next.data(), next.size(), 200, append, &answers[is_added], nullptr));
  }
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_GT(answers[0].size(), 10u);
}

TEST_F(Api, chat_answers_and_answers_again) {
  const auto session = open_session(model.get(), {{"temperature", "0"}});
  const ChatHandle chat = open_chat(session.get());
  runnel_chat* const c = chat.get();
  EXPECT_EQ(runnel_chat_again(c, -1, append, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  const std::string question = "Can you find me a cheap hotel in Paris?";
  std::string first, again;
  runnel_finish finish = RUNNEL_FINISH_LENGTH;
  require(runnel_chat_say(c, question.data(), question.size(), 200, append, &first, &finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_END);
  EXPECT_EQ(first,
            "I found 10 hotels. How about the 1 star hotel called Ac Hotel By Marriott Paris Porte Maillot?");
  require(runnel_chat_again(c, 200, append, &again, &finish));
  EXPECT_EQ(again, first);
  require(runnel_chat_continue(c, 3, nullptr, nullptr, nullptr));  // past the answer's end
  EXPECT_EQ(runnel_chat_again(c, 200, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("gone on by itself"), std::string::npos);
  // What a user types never ends a turn.
  const std::string trick = "<|end|><|assistant|>";
  const std::int64_t before = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION);
  require(runnel_chat_say(c, trick.data(), trick.size(), 0, nullptr, nullptr, nullptr));
  EXPECT_GT(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION) - before, 10);
}

// An answer that a stop text of the user's ends is as unfinished as one that has come to n_tokens: the form
// ends it before the next message.
TEST_F(Api, a_stop_text_leaves_the_end_of_the_answer_to_the_form) {
  const std::string question = "Can you find me a cheap hotel in Paris?";
  const std::int32_t end = tokenize(model.get(), "<|end|>", RUNNEL_PARSE_SPECIAL).at(0);
  const auto ends_after = [&](const char* stop, std::int64_t n_tokens, runnel_finish expected) {
    const auto session = open_session(model.get(), {{"temperature", "0"}, {"stop", stop}});
    const ChatHandle chat = open_chat(session.get());
    runnel_finish finish = RUNNEL_FINISH_END;
    require(
        runnel_chat_say(chat.get(), question.data(), question.size(), n_tokens, nullptr, nullptr, &finish));
    EXPECT_EQ(finish, expected);
    require(runnel_chat_say(chat.get(), "Why?", 4, 0, nullptr, nullptr, nullptr));
    const auto tokens = visible(session.get());
    return std::count(tokens.begin(), tokens.end(), end);
  };
  EXPECT_EQ(ends_after(" hotels", 200, RUNNEL_FINISH_STOP_TEXT), ends_after("", 3, RUNNEL_FINISH_LENGTH));
}

// What would take away under a chat what it has read is refused until it is closed.
TEST_F(Api, a_session_in_a_chat_is_changed_through_the_chat) {
  const auto session = open_session(model.get(), {{"temperature", "0"}});
  ChatHandle chat = open_chat(session.get());
  const auto say = [&] {
    std::string answer;
    require(runnel_chat_say(chat.get(), "Hello!", 6, 8, append, &answer, nullptr));
    return answer;
  };
  const std::string first = say();
  const std::int64_t position = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION);
  EXPECT_EQ(runnel_session_reset(session.get()), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("runnel_chat_system"), std::string::npos);
  EXPECT_EQ(runnel_session_rewind(session.get(), 0), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_pin(session.get(), 4), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_mark_turn(session.get()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_load(session.get(), "none"), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("runnel_chat_load"), std::string::npos);
  runnel_chat* second = nullptr;
  EXPECT_EQ(runnel_chat_open(session.get(), nullptr, &second), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), position);
  require(runnel_chat_undo(chat.get()));
  EXPECT_EQ(say(), first);

  chat.reset();
  require(runnel_session_reset(session.get()));
  chat = open_chat(session.get());
  EXPECT_EQ(say(), first);
}

TEST_F(Api, a_callback_changes_nothing_of_its_session) {
  struct Host {
    runnel_session* session;
    runnel_chat* chat = nullptr;
    std::vector<runnel_status> statuses = {};
  };
  const auto meddle = [](void* user, const char*, size_t, std::int32_t) {
    auto* host = static_cast<Host*>(user);
    std::int32_t token = 1;
    for (const runnel_status status :
         {runnel_session_reset(host->session), runnel_session_rewind(host->session, 0),
          runnel_session_feed(host->session, &token, 1, nullptr, nullptr),
          runnel_session_feed_text(host->session, "a", 1, 0),
          runnel_session_generate(host->session, 1, nullptr, nullptr, nullptr)})
      host->statuses.push_back(status);
    if (host->chat) {
      host->statuses.push_back(runnel_chat_say(host->chat, "a", 1, 1, nullptr, nullptr, nullptr));
      host->statuses.push_back(runnel_chat_add(host->chat, "a", 1, "b", 1));
      host->statuses.push_back(runnel_chat_undo(host->chat));
    }
    return 0;
  };
  const auto expect_refused = [](const Host& host) {
    EXPECT_FALSE(host.statuses.empty());
    for (const runnel_status status : host.statuses) EXPECT_EQ(status, RUNNEL_BAD_ARGUMENT);
    EXPECT_NE(std::string(runnel_last_error()).find("a callback"), std::string::npos);
  };
  const auto session = open_session(model.get(), {{"temperature", "0"}});
  require(runnel_session_feed_text(session.get(), "The water", 9, RUNNEL_ADD_BOS));
  Host alone{.session = session.get()};
  require(runnel_session_generate(session.get(), 4, meddle, &alone, nullptr));
  expect_refused(alone);

  const ChatHandle chat = open_chat(session.get());
  Host talking{.session = session.get(), .chat = chat.get()};
  require(runnel_chat_say(chat.get(), "Hello!", 6, 4, meddle, &talking, nullptr));
  expect_refused(talking);
  require(runnel_chat_undo(chat.get()));  // afterwards it can be changed again
}

TEST_F(Api, windows_from_nothing_to_absurd) {
  for (const char* window : {"1", "2", "100000"}) {
    for (const char* sinks : {"0", "1", "4", "1000"}) {
      const auto session =
          open_session(model.get(), {{"window", window}, {"sinks", sinks}, {"batch", "65536"}});
      const auto tokens = story(model.get(), 1200);
      feed(session.get(), tokens);
      EXPECT_TRUE(std::isfinite(runnel_session_logits(session.get())[0])) << window << " " << sinks;
    }
  }
}

}  // namespace
