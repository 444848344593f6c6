// What a session sees, through the C API: pins, turns, rewinding, overflow; and values no caller should give.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "tests/support/continuation.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

class Window : public testing::Test {
 protected:
  ModelHandle model = open_model(demo_model());
};

TEST_F(Window, pins_are_taken_out_of_the_window) {
  for (const char* cache : {"f32", "f16", "int8"}) {
    const auto session = open_session(model.get(), {{"sinks", "4"}, {"window", "28"}, {"cache", cache}});
    const auto tokens = some_tokens(300);
    require(runnel_session_pin(session.get(), 10));
    EXPECT_EQ(stat(session, RUNNEL_STAT_PREFIX), 10);
    EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_SIZE), 32);
    feed(session.get(), tokens);
    EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_USED), 32);
    EXPECT_EQ(stat(session, RUNNEL_STAT_EVICTED), 300 - 32);
    EXPECT_EQ(stat(session, RUNNEL_STAT_UNSEEN), 300 - 32);
    std::vector<std::int32_t> expected(tokens.begin(), tokens.begin() + 10);
    expected.insert(expected.end(), tokens.end() - 22, tokens.end());
    EXPECT_EQ(visible(session.get()), expected);
    // Later it is too late; a reset forgets the pin.
    EXPECT_EQ(runnel_session_pin(session.get(), 5), RUNNEL_BAD_ARGUMENT);
    require(runnel_session_reset(session.get()));
    EXPECT_EQ(stat(session, RUNNEL_STAT_PREFIX), 4);
    EXPECT_TRUE(visible(session.get()).empty());
  }
}

TEST_F(Window, pins_that_cannot_be) {
  const auto session = open_session(model.get(), {{"sinks", "4"}, {"window", "28"}});
  for (const std::int64_t n : {lowest, std::int64_t{-1}, std::int64_t{32}, std::int64_t{33}, highest}) {
    EXPECT_EQ(runnel_session_pin(session.get(), n), RUNNEL_BAD_ARGUMENT) << n;
    EXPECT_EQ(stat(session, RUNNEL_STAT_PREFIX), 4);
  }
  EXPECT_EQ(runnel_session_pin(nullptr, 1), RUNNEL_BAD_ARGUMENT);
  for (const std::int64_t n : {31, 0, 17}) {  // a window of one token; no prefix
    require(runnel_session_pin(session.get(), n));
    feed(session.get(), some_tokens(100));
    EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_USED), 32);
    require(runnel_session_rewind(session.get(), 0));
  }
}

TEST_F(Window, exchanges_leave_as_a_whole) {
  const auto session = open_session(model.get(), {{"sinks", "4"}, {"window", "28"}, {"evict", "turn"}});
  const auto tokens = some_tokens(300);
  feed(session.get(), {tokens.begin(), tokens.begin() + 4});
  for (std::size_t at = 4; at + 10 <= tokens.size(); at += 10) {
    require(runnel_session_mark_turn(session.get()));
    feed(session.get(), {tokens.begin() + static_cast<std::ptrdiff_t>(at),
                         tokens.begin() + static_cast<std::ptrdiff_t>(at) + 10});
    EXPECT_EQ(stat(session, RUNNEL_STAT_TURNS), at == 4 ? 1 : 2) << at;
    EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_USED), at == 4 ? 14 : 24) << at;
  }
  // By token from now on: the window fills up again.
  require(runnel_session_set(session.get(), "evict", "token"));
  feed(session.get(), some_tokens(20));
  EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_USED), 32);
  EXPECT_EQ(runnel_session_set(session.get(), "evict", "never"), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_mark_turn(nullptr), RUNNEL_BAD_ARGUMENT);
}

TEST_F(Window, rewinding_goes_to_what_is_held) {
  const auto session = open_session(model.get(), {{"sinks", "4"}, {"window", "28"}, {"batch", "8"}});
  const auto tokens = some_tokens(200);
  feed(session.get(), tokens);
  const std::int64_t held = stat(session, RUNNEL_STAT_HELD_FROM);
  EXPECT_EQ(held, 200 - 28 - 7);
  for (const std::int64_t to :
       {lowest, std::int64_t{-1}, std::int64_t{5}, held - 1, std::int64_t{201}, highest}) {
    EXPECT_EQ(runnel_session_rewind(session.get(), to), RUNNEL_BAD_ARGUMENT) << to;
    EXPECT_EQ(position(session), 200);
    EXPECT_NE(runnel_session_logits(session.get()), nullptr);
  }
  EXPECT_EQ(runnel_session_rewind(nullptr, 0), RUNNEL_BAD_ARGUMENT);
  require(runnel_session_rewind(session.get(), 190));
  EXPECT_EQ(position(session), 190);
  EXPECT_NE(runnel_session_logits(session.get()), nullptr);
  require(runnel_session_generate(session.get(), 3, nullptr, nullptr, nullptr));
  require(runnel_session_rewind(session.get(), held));  // nothing of the window is left: no logits
  EXPECT_EQ(runnel_session_logits(session.get()), nullptr);
  EXPECT_EQ(stat(session, RUNNEL_STAT_CACHE_USED), 4);
  require(runnel_session_rewind(session.get(), 3));
  EXPECT_NE(runnel_session_logits(session.get()), nullptr);
  require(runnel_session_rewind(session.get(), 0));
  EXPECT_EQ(runnel_session_logits(session.get()), nullptr);
  feed(session.get(), tokens);
}

// The token in front of the first one that is held has just left: there is nothing to have logits from.
TEST_F(Window, rewinding_reads_no_token_that_has_left) {
  for (const char* evict : {"token", "turn"}) {
    const auto session =
        open_session(model.get(), {{"sinks", "4"}, {"window", "28"}, {"batch", "8"}, {"evict", evict}});
    const auto tokens = some_tokens(40);
    feed(session.get(), tokens);
    const std::int64_t held = stat(session, RUNNEL_STAT_HELD_FROM);
    ASSERT_EQ(held, 5);
    require(runnel_session_rewind(session.get(), held));
    EXPECT_EQ(runnel_session_logits(session.get()), nullptr);
    EXPECT_EQ(visible(session.get()), std::vector<std::int32_t>(tokens.begin(), tokens.begin() + 4));
  }
}

TEST_F(Window, visible_tokens_into_any_buffer) {
  const auto session = open_session(model.get());
  std::size_t n = 99;
  require(runnel_session_visible(session.get(), nullptr, 0, &n));
  EXPECT_EQ(n, 0u);
  feed(session.get(), some_tokens(9));
  EXPECT_EQ(runnel_session_visible(session.get(), nullptr, 0, &n), RUNNEL_BUFFER_TOO_SMALL);
  EXPECT_EQ(n, 9u);
  std::int32_t one = 0;
  EXPECT_EQ(runnel_session_visible(session.get(), &one, 1, &n), RUNNEL_BUFFER_TOO_SMALL);
  EXPECT_EQ(runnel_session_visible(nullptr, &one, 1, &n), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_visible(session.get(), nullptr, 1, &n), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_visible(session.get(), &one, 1, nullptr), RUNNEL_BAD_ARGUMENT);
}

TEST_F(Window, overflow_can_be_an_error) {
  const auto session = open_session(model.get(), {{"sinks", "4"}, {"window", "28"}, {"overflow", "error"}});
  const auto feeds = [&](std::size_t n) {
    const auto tokens = some_tokens(n);
    return runnel_session_feed(session.get(), tokens.data(), n, nullptr, nullptr);
  };
  EXPECT_EQ(feeds(33), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(position(session), 0);
  EXPECT_EQ(feeds(32), RUNNEL_OK);
  EXPECT_EQ(feeds(29), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(feeds(28), RUNNEL_OK);
  EXPECT_EQ(stat(session, RUNNEL_STAT_UNSEEN), 0);
  EXPECT_EQ(position(session), 60);
  require(runnel_session_set(session.get(), "overflow", "stream"));
  EXPECT_EQ(feeds(40), RUNNEL_OK);
  EXPECT_EQ(stat(session, RUNNEL_STAT_UNSEEN), 12);
  EXPECT_EQ(runnel_session_set(session.get(), "overflow", "truncate"), RUNNEL_BAD_ARGUMENT);
}

TEST_F(Window, a_message_that_is_stopped_is_taken_back) {
  const auto session = open_session(model.get(), {{"temperature", "0"}});
  const ChatHandle chat = open_chat(session.get());
  runnel_chat* c = chat.get();
  const auto say = [c](const std::string& text) {
    return runnel_chat_say(c, text.data(), text.size(), 5, nullptr, nullptr, nullptr);
  };
  const auto stop = [](void* user, runnel_site, int32_t, int64_t, const float*, size_t) {
    runnel_session_stop(static_cast<runnel_session*>(user));
  };
  for (int i = 0; i < 2; ++i) {
    const auto before = visible(session.get());
    require(runnel_session_observe(session.get(), stop, nullptr, session.get()));
    EXPECT_EQ(say("Hello!"), RUNNEL_STOPPED);
    require(runnel_session_observe(session.get(), nullptr, nullptr, nullptr));
    EXPECT_EQ(visible(session.get()), before);
    require(say("Find me a film."));
  }
  // Stopped answers can be taken back too.
  runnel_session_stop(session.get());
  require(runnel_chat_undo(c));
  runnel_session_stop(session.get());
  require(runnel_chat_again(c, 5, nullptr, nullptr, nullptr));
}

TEST_F(Window, chats_in_windows_of_any_size) {
  for (const char* evict : {"auto", "token", "turn"})
    for (const char* window : {"1", "2", "3", "10", "40"})
      for (const char* sinks : {"0", "1", "4", "50"}) {
        SCOPED_TRACE(std::string(evict) + ", window " + window + ", sinks " + sinks);
        const auto session =
            open_session(model.get(), {{"evict", evict}, {"window", window}, {"sinks", sinks}});
        runnel_chat* c = nullptr;
        const runnel_status opened = runnel_chat_open(session.get(), nullptr, &c);
        // "<s> <|user|>" and a token are the least
        const std::int64_t n_total = std::stoll(window) + std::stoll(sinks);
        EXPECT_EQ(opened, n_total >= 4 ? RUNNEL_OK : RUNNEL_BAD_ARGUMENT);
        if (opened != RUNNEL_OK) continue;
        const ChatHandle chat(c, runnel_chat_close);
        for (const char* text : {"Hello!", "", "A message that is longer than some of these windows are."}) {
          require(runnel_chat_say(c, text, std::string(text).size(), 5, nullptr, nullptr, nullptr));
          EXPECT_LE(stat(session, RUNNEL_STAT_CACHE_USED), n_total);
          runnel_chat_again(c, 5, nullptr, nullptr, nullptr);  // may have left a small window
        }
        EXPECT_EQ(runnel_chat_say(c, "x", 1, -2, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
        EXPECT_EQ(runnel_chat_say(c, "x", 1, lowest, nullptr, nullptr, nullptr), RUNNEL_BAD_ARGUMENT);
        runnel_chat_pin(c, "Be kind.", 8);
        require(runnel_chat_say(c, "And then?", 9, 5, nullptr, nullptr, nullptr));
        require(runnel_chat_undo(c));
        while (runnel_chat_undo(c) == RUNNEL_OK) continue;
        require(runnel_chat_continue(c, 5, nullptr, nullptr, nullptr));
        EXPECT_EQ(runnel_chat_pin(c, nullptr, 5), RUNNEL_BAD_ARGUMENT);
        EXPECT_EQ(runnel_chat_pin(c, "", 0), RUNNEL_BAD_ARGUMENT);
      }
  EXPECT_EQ(runnel_chat_undo(nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_pin(nullptr, "x", 1), RUNNEL_BAD_ARGUMENT);
  EXPECT_STREQ(runnel_chat_system_prompt(nullptr), "");
}

}  // namespace
