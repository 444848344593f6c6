// What the tests of saved sessions share: sessions and talks to save, and a folder to save them to.
#pragma once
#include <gtest/gtest.h>

#include "tests/support/append.h"
#include "tests/support/continuation.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {

class Saving : public testing::Test {
 protected:
  std::size_t n_vocab() const {
    return static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
  }

  // The session as it goes on, and its copy from a file; the copy is loaded over something else.
  void expect_same_future(runnel_session* session, runnel_session* copy, std::size_t n) {
    const std::string path = folder.file("session");
    require(runnel_session_save(session, path.c_str()));
    feed(copy, {5, 6, 7});
    require(runnel_session_load(copy, path.c_str()));
    for (int i = 0; i <= RUNNEL_STAT_HELD_FROM; ++i) {
      if (i == RUNNEL_STAT_SCRATCH_BYTES || i == RUNNEL_STAT_CACHE_BYTES) continue;
      EXPECT_EQ(runnel_session_stat(copy, static_cast<runnel_stat>(i)),
                runnel_session_stat(session, static_cast<runnel_stat>(i)))
          << "statistic " << i;
    }
    EXPECT_EQ(visible(copy), visible(session));
    const Continuation original = continue_for(session, n_vocab(), n);
    EXPECT_TRUE(continue_for(copy, n_vocab(), n) == original);
    EXPECT_EQ(visible(copy), visible(session));
  }

  ModelHandle model = open_model(demo_model());
  Folder folder;
};

inline const Settings lively = {{"threads", "1"},
                                {"seed", "7"},
                                {"temperature", "1.2"},
                                {"repetition_penalty", "1.15"},
                                {"presence_penalty", "0.2"},
                                {"frequency_penalty", "0.1"},
                                {"penalty_window", "50"}};

inline Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

struct Talk {
  Talk(const runnel_model* model, const Settings& settings)
      : session(open_session(model, settings)), chat(open_chat(session.get())) {}

  std::string say(const std::string& text, std::int64_t n_tokens = 30) const {
    std::string answer;
    require(runnel_chat_say(chat.get(), text.data(), text.size(), n_tokens, append, &answer, nullptr));
    return answer;
  }
  std::string again() const {
    std::string answer;
    require(runnel_chat_again(chat.get(), 30, append, &answer, nullptr));
    return answer;
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> all;
    runnel_speaker speaker = RUNNEL_USER;
    for (std::size_t i = 0; const char* text = runnel_chat_message(chat.get(), i, &speaker, nullptr); ++i)
      all.insert(all.begin(), (speaker == RUNNEL_USER ? "U " : "M ") + std::string(text));
    return all;
  }

  SessionHandle session;
  ChatHandle chat;
};

inline const char* const lines[] = {"I want to book a table for two in San Jose.", "At 7 pm.", "Yes, please.",
                                    "Find me a cheap hotel in Paris.", "For three nights."};

}  // namespace runnel::test
