// Memory that runs out at any moment of a call: the call says so, and what was there before can be used on.
// And what a session takes of it, which is told before it is opened.
#include <gtest/gtest.h>

#include "tests/support/allocations.h"
#include "tests/support/api.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"
#include "tests/unit/gguf_builder.h"

namespace {

using namespace runnel::test;

// The call with memory for n allocations.
template <class Call>
runnel_status with_memory(long n, Refuse which, Call&& call) {
  refuse_allocations_after(n, which);
  const runnel_status status = call();
  allow_allocations();
  return status;
}

// Runs out of memory at one allocation after the other, until the call has what it needs. Of those after the
// hundredth a part: to open a model takes thousands.
template <class Call>
void expect_no_memory_until_enough(Call&& call) {
  long n = 0;
  for (;; n += 1 + n / 100) {
    const runnel_status status = with_memory(n, Refuse::all, call);
    if (status == RUNNEL_OK) break;
    ASSERT_EQ(status, RUNNEL_NO_MEMORY) << "after " << n << ": " << runnel_last_error();
    ASSERT_STREQ(runnel_last_error(), "not enough memory");
  }
  EXPECT_GT(n, 0) << "nothing was allocated where this test sees it";
}

class NoMemory : public testing::Test {
 protected:
  ModelHandle model = open_model(demo_model());
  SessionHandle session =
      open_session(model.get(), {{"window", "252"}, {"temperature", "0"}, {"threads", "1"}});
  Folder folder;
};

void expect_session_to_take_what_it_says(const runnel_model* model, const Settings& settings) {
  const Config chosen = config(settings);
  std::int64_t cache = 0, scratch = 0;
  require(runnel_model_session_bytes(model, chosen.get(), &cache, &scratch));
  const std::size_t before = allocated_bytes();
  runnel_session* session = nullptr;
  require(runnel_session_open(model, chosen.get(), &session));
  const auto taken = static_cast<double>(allocated_bytes() - before);
  EXPECT_EQ(runnel_session_stat(session, RUNNEL_STAT_SCRATCH_BYTES), scratch);
  runnel_session_close(session);
  const auto said = static_cast<double>(cache + scratch);
  EXPECT_NEAR(taken, said, 0.01 * said + 150'000) << cache << " and " << scratch;
}

void expect_sessions_to_take_what_they_say(const std::string& path) {
  for (const char* int8 : {"false", "true"}) {
    SCOPED_TRACE(path + ", int8 " + int8);
    const auto model = open_model(path, {{"int8", int8}});
    expect_session_to_take_what_it_says(model.get(), {{"window", "60"}, {"threads", "1"}});
    expect_session_to_take_what_it_says(model.get(),
                                        {{"window", "60"}, {"threads", "5"}, {"batch", "1"}, {"sinks", "0"}});
    expect_session_to_take_what_it_says(
        model.get(), {{"window", "8000"}, {"threads", "2"}, {"batch", "2048"}, {"cache", "int8"}});
  }
}

TEST(MemoryOfSessions, is_what_they_say) { expect_sessions_to_take_what_they_say(demo_model()); }

TEST(MemoryOfSessions, is_what_those_of_mixtures_and_parallel_layers_say) {
  for (const std::string name : {"golden/llama-moe.gguf", "golden/falcon-dense.gguf"}) {
    RUNNEL_NEEDS_SHARED(name);
    expect_sessions_to_take_what_they_say(shared(name));
  }
}

TEST_F(NoMemory, opening_says_so) {
  const std::string path = demo_model();
  expect_no_memory_until_enough([&] {
    runnel_model* opened = nullptr;
    const runnel_status status = runnel_model_open(path.c_str(), nullptr, &opened);
    runnel_model_close(opened);
    return status;
  });
  expect_no_memory_until_enough([&] {
    runnel_session* opened = nullptr;
    const runnel_status status = runnel_session_open(model.get(), nullptr, &opened);
    runnel_session_close(opened);
    return status;
  });
  require(runnel_session_feed_text(session.get(), "The water", 9, RUNNEL_ADD_BOS));
  const auto read_and_pinned = [&] {
    return std::pair(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION),
                     runnel_session_stat(session.get(), RUNNEL_STAT_PREFIX));
  };
  const auto before = read_and_pinned();
  expect_no_memory_until_enough([&] {
    runnel_chat* opened = nullptr;
    const runnel_status status = runnel_chat_open(session.get(), nullptr, &opened);
    if (status != RUNNEL_OK) {
      EXPECT_EQ(read_and_pinned(), before);
    }
    runnel_chat_close(opened);
    return status;
  });
}

TEST_F(NoMemory, reading_and_saying_say_so) {
  const std::string text = "Can you find me a cheap hotel in Paris for two people, please?";
  expect_no_memory_until_enough([&] {
    runnel_session_reset(session.get());
    return runnel_session_feed_text(session.get(), text.data(), text.size(), RUNNEL_ADD_BOS);
  });
  const auto chat = open_chat(session.get());
  expect_no_memory_until_enough(
      [&] { return runnel_chat_say(chat.get(), text.data(), text.size(), 8, nullptr, nullptr, nullptr); });
}

// What cannot be set without memory is what it was in all that follows: also the tokens that a penalty
// remembers, and the random numbers.
TEST_F(NoMemory, settings_stay) {
  const auto open_reading = [&] {
    auto reading = open_session(model.get(), {{"window", "252"}, {"threads", "1"}});
    for (const auto& [name, value] :
         {std::pair{"penalty_window", "8"}, {"frequency_penalty", "1.5"}, {"seed", "7"}})
      require(runnel_session_set(reading.get(), name, value));
    require(runnel_session_feed_text(reading.get(), "One two three four five six", 27, RUNNEL_ADD_BOS));
    return reading;
  };
  const auto next = [](runnel_session* each) {
    std::int32_t token = 0;
    require(runnel_session_sample(each, &token));
    require(runnel_session_feed(each, &token, 1, nullptr, nullptr));
    return token;
  };
  for (const auto& [name, value] :
       {std::pair{"penalty_window", "64"}, {"frequency_penalty", "0"}, {"seed", "8"}}) {
    const auto changed = open_reading(), twin = open_reading();
    const std::string before = runnel_session_get(changed.get(), name);
    long n = 0;
    const auto set = [&, name = name, value = value] {
      return runnel_session_set(changed.get(), name, value);
    };
    for (; with_memory(n, Refuse::all, set) != RUNNEL_OK; ++n) {
      EXPECT_EQ(runnel_session_get(changed.get(), name), before);
      for (int i = 0; i < 12; ++i)
        ASSERT_EQ(next(changed.get()), next(twin.get())) << name << ", after " << n << " allocations";
    }
    EXPECT_GT(n, 2) << name;
  }
}

// Where there is memory for the message, it says what would take less.
TEST_F(NoMemory, a_session_without_memory_names_its_window) {
  int n_named = 0;
  for (long n = 0; n < 60; ++n) {
    runnel_session* opened = nullptr;
    const runnel_status status =
        with_memory(n, Refuse::one, [&] { return runnel_session_open(model.get(), nullptr, &opened); });
    runnel_session_close(opened);
    if (status == RUNNEL_OK) continue;
    const std::string message = runnel_last_error();
    ASSERT_EQ(message.rfind("not enough memory", 0), 0u) << message;
    n_named += message.find("a window of 508 tokens") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(n_named, 5);
}

// Also where it is the message of another error that finds none.
TEST_F(NoMemory, errors_say_so) {
  for (long n = 0; n < 20; ++n) {
    const runnel_status status = with_memory(n, Refuse::all, [&] {
      return runnel_session_set(session.get(), "no_such_setting_in_any_version_of_this", "1");
    });
    EXPECT_TRUE(status == RUNNEL_NO_MEMORY || status == RUNNEL_BAD_ARGUMENT) << runnel_last_error();
    EXPECT_STRNE(runnel_last_error(), "");
  }
}

// A path as long as the system takes does not cut off what is said about the file.
TEST_F(NoMemory, errors_of_long_paths_are_whole_or_say_so) {
  const auto bytes =
      GgufBuilder().add("general.architecture", "llama").add("tokenizer.ggml.model", "odd").build();
  write_bytes(folder.file("odd"), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  constexpr std::size_t most = 4000;
  std::string path = folder.path().string() + "/";
  while (path.size() < most) path += "./";
  path += "odd";
  const std::string whole = path + ": tokenizer.ggml.model is \"odd\", expected one of: llama, gpt2, bert";
  runnel_status status = RUNNEL_NO_MEMORY;
  for (long n = 0; status == RUNNEL_NO_MEMORY; ++n) {
    runnel_model* opened = nullptr;
    status = with_memory(n, Refuse::all, [&] { return runnel_model_open(path.c_str(), nullptr, &opened); });
    ASSERT_EQ(runnel_last_error(), status == RUNNEL_NO_MEMORY ? "not enough memory" : whole);
  }
  EXPECT_EQ(status, RUNNEL_UNSUPPORTED);
}

std::size_t n_messages(const runnel_chat* chat) {
  std::size_t n = 0;
  while (runnel_chat_message(chat, n, nullptr, nullptr)) ++n;
  return n;
}

// All that a conversation can be asked about itself.
struct State {
  std::int64_t position, turns, seen;
  std::size_t messages;

  State(const runnel_session* session, const runnel_chat* chat)
      : position(runnel_session_stat(session, RUNNEL_STAT_POSITION)),
        turns(runnel_session_stat(session, RUNNEL_STAT_TURNS)),
        seen(runnel_session_stat(session, RUNNEL_STAT_CACHE_USED)),
        messages(n_messages(chat)) {}
  bool operator==(const State&) const = default;
};

TEST_F(NoMemory, a_message_that_was_not_read_is_taken_back) {
  const std::string path = folder.file("talk");
  const std::string first = "Hello there!", second = "I would like to book a table for two in San Jose.";
  for (const Refuse which : {Refuse::one, Refuse::all})
    for (const int i : {0, 1, 2, 3}) {
      const bool is_first = i < 2, is_added = i % 2 == 1;
      const std::string& text = is_first ? first : second;
      int n_failed = 0;
      for (long n = 0;; ++n) {
        SCOPED_TRACE(n);
        const auto chat = open_chat(session.get());
        const auto say = [&](const std::string& said) {
          return runnel_chat_say(chat.get(), said.data(), said.size(), 3, nullptr, nullptr, nullptr);
        };
        require(say(first));
        if (is_first) require(runnel_chat_undo(chat.get()));
        const State before(session.get(), chat.get());
        const runnel_status status = with_memory(n, which, [&] {
          if (is_added)
            return runnel_chat_add(chat.get(), text.data(), text.size(), second.data(), second.size());
          return runnel_chat_say(chat.get(), text.data(), text.size(), 0, nullptr, nullptr, nullptr);
        });
        if (status == RUNNEL_OK) break;
        ++n_failed;
        ASSERT_EQ(status, RUNNEL_NO_MEMORY);
        EXPECT_TRUE(State(session.get(), chat.get()) == before);
        require(say("And now?"));
        require(runnel_chat_save(chat.get(), path.c_str()));
        require(runnel_chat_load(chat.get(), path.c_str()));
        require(say("Well."));
        EXPECT_EQ(n_messages(chat.get()), before.messages + 4);
        require(runnel_chat_undo(chat.get()));
        require(runnel_chat_undo(chat.get()));
      }
      EXPECT_GT(n_failed, 5);
    }
}

// Nor does one for which others have to leave the window take them along.
TEST_F(NoMemory, a_message_that_was_not_read_lets_the_others_stay) {
  const auto narrow = open_session(model.get(), {{"window", "32"}, {"temperature", "0"}, {"threads", "1"}});
  const std::string first = "Hello there!", second = "I would like to book a table for two in San Jose.";
  bool is_enough = false;
  long n = 0;
  for (; !is_enough; ++n) {
    SCOPED_TRACE(n);
    const auto chat = open_chat(narrow.get());
    const auto say = [&](const std::string& said, std::int64_t n_tokens) {
      return runnel_chat_say(chat.get(), said.data(), said.size(), n_tokens, nullptr, nullptr, nullptr);
    };
    for (int i = 0; i < 2; ++i) require(say(first, 16));
    const State before(narrow.get(), chat.get());
    ASSERT_EQ(before.turns, 2);
    is_enough = with_memory(n, Refuse::one, [&] { return say(second, 0); }) == RUNNEL_OK;
    if (!is_enough) {
      EXPECT_TRUE(State(narrow.get(), chat.get()) == before);
    } else {
      EXPECT_LT(runnel_session_stat(narrow.get(), RUNNEL_STAT_TURNS), 3) << "all had room";
    }
  }
  EXPECT_GT(n, 5);
}

// While the answer comes the message has been read: it stays.
TEST_F(NoMemory, an_answer_that_breaks_off_can_be_given_again) {
  const std::string path = folder.file("talk");
  bool is_enough = false;
  for (long n = 0; !is_enough; ++n) {
    SCOPED_TRACE(n);
    const auto chat = open_chat(session.get());
    const runnel_status status = with_memory(n, Refuse::one, [&] {
      return runnel_chat_say(chat.get(), "Hello you", 9, 8, nullptr, nullptr, nullptr);
    });
    is_enough = status == RUNNEL_OK;
    ASSERT_TRUE(is_enough || status == RUNNEL_NO_MEMORY);
    if (n_messages(chat.get()) > 0) require(runnel_chat_again(chat.get(), 8, nullptr, nullptr, nullptr));
    require(runnel_chat_say(chat.get(), "Again now", 9, 8, nullptr, nullptr, nullptr));
    require(runnel_chat_save(chat.get(), path.c_str()));
    require(runnel_chat_load(chat.get(), path.c_str()));
    require(runnel_chat_say(chat.get(), "More", 4, 8, nullptr, nullptr, nullptr));
  }
}

TEST_F(NoMemory, a_new_system_prompt_leaves_a_conversation) {
  const std::string path = folder.file("talk"), prompt = "You are a helpful assistant who books tables.";
  bool is_enough = false;
  for (long n = 0; !is_enough; ++n) {
    SCOPED_TRACE(n);
    const auto chat = open_chat(session.get());
    require(runnel_chat_say(chat.get(), "Hello you", 9, 8, nullptr, nullptr, nullptr));
    const State before(session.get(), chat.get());
    const std::string prompt_before = runnel_chat_system_prompt(chat.get());
    const runnel_status status = with_memory(
        n, Refuse::one, [&] { return runnel_chat_system(chat.get(), prompt.data(), prompt.size()); });
    is_enough = status == RUNNEL_OK;
    ASSERT_TRUE(is_enough || status == RUNNEL_NO_MEMORY);
    if (!is_enough) {
      EXPECT_TRUE(State(session.get(), chat.get()) == before);
      EXPECT_EQ(runnel_chat_system_prompt(chat.get()), prompt_before);
    }
    require(runnel_chat_say(chat.get(), "Again now", 9, 8, nullptr, nullptr, nullptr));
    require(runnel_chat_save(chat.get(), path.c_str()));
    require(runnel_chat_load(chat.get(), path.c_str()));
  }
}

}  // namespace
