// What the tests of saved sessions share: sessions and talks to save, and a folder to save them to.
#pragma once
#include <gtest/gtest.h>

#include "tests/support/continuation.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {

using SettingList = std::vector<std::pair<const char*, std::string>>;

inline SessionHandle open_with(const runnel_model* model, const SettingList& settings) {
  runnel_config* c = nullptr;
  require(runnel_config_new(&c));
  const Config owned(c, runnel_config_free);
  for (const auto& [name, value] : settings) require(runnel_config_set(c, name, value.c_str()));
  runnel_session* s = nullptr;
  require(runnel_session_open(model, c, &s));
  return {s, runnel_session_close};
}

inline std::vector<std::int32_t> some_tokens(std::size_t n, std::size_t n_vocab) {
  std::vector<std::int32_t> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<std::int32_t>((i * i + 7 * i + 3) % n_vocab);
  return tokens;
}

inline void feed(runnel_session* session, const std::vector<std::int32_t>& tokens) {
  require(runnel_session_feed(session, tokens.data(), tokens.size(), nullptr, nullptr));
}

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
    for (int stat = 0; stat <= RUNNEL_STAT_HELD_FROM; ++stat) {
      if (stat == RUNNEL_STAT_SCRATCH_BYTES || stat == RUNNEL_STAT_CACHE_BYTES) continue;
      EXPECT_EQ(runnel_session_stat(copy, static_cast<runnel_stat>(stat)),
                runnel_session_stat(session, static_cast<runnel_stat>(stat)))
          << "statistic " << stat;
    }
    EXPECT_EQ(visible(copy), visible(session));
    const Continuation original = continue_for(session, n_vocab(), n);
    EXPECT_TRUE(continue_for(copy, n_vocab(), n) == original);
    EXPECT_EQ(visible(copy), visible(session));
  }

  ModelHandle model = open_model(demo_model());
  Folder folder;
};

inline const SettingList lively = {{"threads", "1"},
                                   {"seed", "7"},
                                   {"temperature", "1.2"},
                                   {"repetition_penalty", "1.15"},
                                   {"presence_penalty", "0.2"},
                                   {"frequency_penalty", "0.1"},
                                   {"penalty_window", "50"}};

inline SettingList with(SettingList settings, const SettingList& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

struct Talk {
  Talk(const runnel_model* model, const SettingList& settings) : session(open_with(model, settings)) {
    runnel_chat* c = nullptr;
    require(runnel_chat_open(session.get(), nullptr, &c));
    chat = {c, runnel_chat_close};
  }

  static int keep(void* user, const char* text, std::size_t n_bytes, std::int32_t) {
    static_cast<std::string*>(user)->append(text, n_bytes);
    return 0;
  }
  std::string say(const std::string& text, std::int64_t n_tokens = 30) const {
    std::string answer;
    require(runnel_chat_say(chat.get(), text.data(), text.size(), n_tokens, keep, &answer, nullptr));
    return answer;
  }
  std::string again() const {
    std::string answer;
    require(runnel_chat_again(chat.get(), 30, keep, &answer, nullptr));
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
  std::unique_ptr<runnel_chat, decltype(&runnel_chat_close)> chat{nullptr, runnel_chat_close};
};

inline const char* const lines[] = {"I want to book a table for two in San Jose.", "At 7 pm.", "Yes, please.",
                                    "Find me a cheap hotel in Paris.", "For three nights."};

}  // namespace runnel::test
