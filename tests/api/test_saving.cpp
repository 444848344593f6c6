// Sessions and conversations that were saved go on as if nothing had happened; what cannot be loaded is
// refused and changes nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/continuation.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;
using SettingList = std::vector<std::pair<const char*, std::string>>;

SessionHandle open_with(const runnel_model* model, const SettingList& settings) {
  runnel_config* c = nullptr;
  require(runnel_config_new(&c));
  const Config owned(c, runnel_config_free);
  for (const auto& [name, value] : settings) require(runnel_config_set(c, name, value.c_str()));
  runnel_session* s = nullptr;
  require(runnel_session_open(model, c, &s));
  return {s, runnel_session_close};
}

std::vector<std::int32_t> some_tokens(std::size_t n, std::size_t n_vocab) {
  std::vector<std::int32_t> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<std::int32_t>((i * i + 7 * i + 3) % n_vocab);
  return tokens;
}

void feed(runnel_session* session, const std::vector<std::int32_t>& tokens) {
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

const SettingList lively = {{"seed", "7"},
                            {"temperature", "1.2"},
                            {"repetition_penalty", "1.15"},
                            {"presence_penalty", "0.2"},
                            {"frequency_penalty", "0.1"},
                            {"penalty_window", "50"}};

SettingList with(SettingList settings, const SettingList& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST_F(Saving, goes_on_to_the_bit_in_every_type_and_at_every_age) {
  for (const char* type : {"f32", "f16", "int8"}) {
    for (const std::size_t n_before : {1, 4, 5, 64, 65, 150}) {
      SCOPED_TRACE(std::string(type) + ", after " + std::to_string(n_before) + " tokens");
      const SettingList settings = with(lively, {{"cache", type}, {"window", "60"}, {"batch", "32"}});
      const auto session = open_with(model.get(), with(settings, {{"threads", "1"}}));
      const auto copy = open_with(model.get(), with(settings, {{"threads", n_before == 65 ? "2" : "1"}}));
      feed(session.get(), some_tokens(n_before, n_vocab()));
      continue_for(session.get(), n_vocab(), n_before % 2 * 5);  // the random numbers have moved on, or not
      expect_same_future(session.get(), copy.get(), 40);
    }
  }
}

TEST_F(Saving, every_family) {
  for (const char* name : {"llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense", "gemma2-dense",
                           "phi3-dense", "gpt2-dense", "granite-dense", "falcon-dense", "bloom-dense"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string("golden/") + name + ".gguf";
    RUNNEL_NEEDS_SHARED(path);
    model = open_model(shared(path));
    for (const char* type : {"f32", "int8"}) {
      const SettingList settings =
          with(lively, {{"cache", type}, {"sinks", "2"}, {"window", "30"}, {"batch", "8"}});
      const auto session = open_with(model.get(), settings);
      const auto copy = open_with(model.get(), settings);
      feed(session.get(), some_tokens(77, n_vocab()));
      expect_same_future(session.get(), copy.get(), 40);
    }
  }
}

TEST_F(Saving, a_session_that_has_read_nothing) {
  const auto session = open_with(model.get(), lively);
  const auto copy = open_with(model.get(), lively);
  const std::string path = folder.file("session");
  require(runnel_session_save(session.get(), path.c_str()));
  feed(copy.get(), {5, 6, 7});
  require(runnel_session_load(copy.get(), path.c_str()));
  EXPECT_EQ(runnel_session_logits(copy.get()), nullptr);
  EXPECT_EQ(runnel_session_stat(copy.get(), RUNNEL_STAT_POSITION), 0);
  feed(session.get(), {8, 9});
  feed(copy.get(), {8, 9});
  EXPECT_TRUE(continue_for(copy.get(), n_vocab(), 20) == continue_for(session.get(), n_vocab(), 20));
}

TEST_F(Saving, pinned_prefix_marked_turns_and_rewound_streams) {
  for (const char* type : {"f32", "f16", "int8"}) {
    SCOPED_TRACE(type);
    const SettingList settings =
        with(lively, {{"cache", type}, {"window", "60"}, {"batch", "16"}, {"evict", "turn"}});
    const auto session = open_with(model.get(), settings);
    const auto copy = open_with(model.get(), settings);
    require(runnel_session_pin(session.get(), 13));
    for (int turn = 0; turn < 9; ++turn) {
      feed(session.get(), some_tokens(14, n_vocab()));
      require(runnel_session_mark_turn(session.get()));
    }
    expect_same_future(session.get(), copy.get(), 30);
    const std::int64_t back = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION) - 5;
    require(runnel_session_rewind(session.get(), back));
    expect_same_future(session.get(), copy.get(), 30);
    require(runnel_session_rewind(session.get(), back));
    require(runnel_session_rewind(copy.get(), back));
    expect_same_future(session.get(), copy.get(), 30);
  }
}

// The keys lie elsewhere in a ring of another size, so that sums over them are made in another order.
TEST_F(Saving, another_batch_is_the_same_but_for_rounding) {
  for (const auto& [batch, other] : {std::pair{"1", "32"}, {"32", "1"}, {"8", "32"}}) {
    SCOPED_TRACE(std::string(batch) + " and " + other);
    const SettingList settings = {{"window", "60"}, {"cache", "f32"}};
    const auto session = open_with(model.get(), with(settings, {{"batch", batch}}));
    const auto copy = open_with(model.get(), with(settings, {{"batch", other}}));
    feed(session.get(), some_tokens(150, n_vocab()));
    require(runnel_session_save(session.get(), folder.file("session").c_str()));
    require(runnel_session_load(copy.get(), folder.file("session").c_str()));
    EXPECT_EQ(visible(copy.get()), visible(session.get()));
    for (const std::int32_t token : some_tokens(70, n_vocab())) {
      feed(session.get(), {token});
      feed(copy.get(), {token});
      const auto a = logits_of(copy.get(), n_vocab()), b = logits_of(session.get(), n_vocab());
      ASSERT_LT(nmse(a.data(), b.data(), n_vocab()), 1e-9);
    }
  }
}

TEST_F(Saving, the_file_is_as_large_as_what_the_cache_holds) {
  const auto session = open_with(model.get(), {{"window", "4000"}});
  const std::string path = folder.file("session");
  feed(session.get(), some_tokens(10, n_vocab()));
  require(runnel_session_save(session.get(), path.c_str()));
  const auto small = std::filesystem::file_size(path);
  feed(session.get(), some_tokens(990, n_vocab()));
  require(runnel_session_save(session.get(), path.c_str()));
  const auto large = std::filesystem::file_size(path);
  const auto each =
      static_cast<std::uintmax_t>(runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_BYTES)) / 4259;
  EXPECT_NEAR(static_cast<double>(large - small), static_cast<double>(990 * (each + 4)), 8192.0);
}

// ---- conversations ----

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

const char* const lines[] = {"I want to book a table for two in San Jose.", "At 7 pm.", "Yes, please.",
                             "Find me a cheap hotel in Paris.", "For three nights."};

TEST_F(Saving, a_conversation_goes_on_where_it_was) {
  for (const char* evict : {"turn", "token"}) {
    for (const std::int64_t n_tokens : {3, 30}) {  // 3: the answer is cut, the turn is still open
      SCOPED_TRACE(std::string(evict) + ", answers of " + std::to_string(n_tokens));
      const SettingList settings = with(lively, {{"window", "120"}, {"evict", evict}});
      const Talk talk(model.get(), settings), copy(model.get(), settings);
      const std::string system = "You are a helpful assistant.";
      require(runnel_chat_system(talk.chat.get(), system.data(), system.size()));
      for (int i = 0; i < 8; ++i) {
        talk.say(lines[i % 5], n_tokens);
        require(runnel_chat_save(talk.chat.get(), folder.file("chat").c_str()));
        require(runnel_chat_load(copy.chat.get(), folder.file("chat").c_str()));
        EXPECT_EQ(copy.messages(), talk.messages());
      }
      EXPECT_EQ(copy.again(), talk.again());
      require(runnel_chat_undo(copy.chat.get()));
      require(runnel_chat_undo(talk.chat.get()));
      for (const char* line : lines) EXPECT_EQ(copy.say(line), talk.say(line));
      EXPECT_EQ(copy.messages(), talk.messages());
      EXPECT_TRUE(continue_for(copy.session.get(), n_vocab(), 5) ==
                  continue_for(talk.session.get(), n_vocab(), 5));
    }
  }
}

TEST_F(Saving, messages_are_kept_as_they_were_said) {
  const Talk talk(model.get(), {{"temperature", "0"}});
  EXPECT_TRUE(talk.messages().empty());
  const std::string first = talk.say(lines[0]);
  const std::string second = talk.say("");
  EXPECT_EQ(talk.messages(),
            (std::vector<std::string>{"U " + std::string(lines[0]), "M " + first, "U ", "M " + second}));
  EXPECT_EQ(talk.again(), second);
  EXPECT_EQ(talk.messages().size(), 4u);
  require(runnel_chat_undo(talk.chat.get()));
  EXPECT_EQ(talk.messages(), (std::vector<std::string>{"U " + std::string(lines[0]), "M " + first}));
  require(runnel_chat_system(talk.chat.get(), nullptr, 0));
  EXPECT_TRUE(talk.messages().empty());
}

// ---- refusals ----

class Refusal : public Saving {
 protected:
  void SetUp() override {
    const auto other = open_with(model.get(), settings);
    feed(other.get(), some_tokens(90, n_vocab()));
    require(runnel_session_save(other.get(), path.c_str()));
    feed(session.get(), some_tokens(20, n_vocab()));
  }

  // And the session is as it was.
  void expect_refused(const std::string& file, runnel_status status, const std::string& why) {
    const std::string kept = folder.file("kept");
    require(runnel_session_save(session.get(), kept.c_str()));
    const std::string before = read_bytes(kept);
    EXPECT_EQ(runnel_session_load(session.get(), file.c_str()), status);
    const std::string message = runnel_last_error();
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
    require(runnel_session_save(session.get(), kept.c_str()));
    EXPECT_TRUE(read_bytes(kept) == before) << why;
  }

  const SettingList settings = with(lively, {{"window", "60"}});
  const std::string path = folder.file("session");
  SessionHandle session = open_with(model.get(), settings);
};

TEST_F(Refusal, other_settings) {
  session = open_with(model.get(), with(settings, {{"window", "61"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT,
                 "saved with window 60, this one has window 61: open it with window 60");
  session = open_with(model.get(), with(settings, {{"sinks", "8"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with sinks 4");
  session = open_with(model.get(), with(settings, {{"cache", "int8"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with cache f16");
}

TEST_F(Refusal, other_weights) {
  model = open_model(demo_model(), {{"int8", "true"}});
  session = open_with(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with int8 false");
}

TEST_F(Refusal, another_model) {
  const std::string other = "models/stories260K-f32.gguf";
  RUNNEL_NEEDS_SHARED(other);
  model = open_model(shared(other));
  session = open_with(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT,
                 "belongs to another model, runnel-demo-f16.gguf; this one is stories260K-f32.gguf");
}

// The same weights under another name are the same model; one changed weight makes another.
TEST_F(Refusal, the_model_is_what_its_file_holds) {
  std::string bytes = read_bytes(demo_model());
  write_bytes(folder.file("renamed.gguf"), bytes);
  model = open_model(folder.file("renamed.gguf"));
  session = open_with(model.get(), settings);
  require(runnel_session_load(session.get(), path.c_str()));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(folder.file("changed.gguf"), bytes);
  model = open_model(folder.file("changed.gguf"));
  session = open_with(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "belongs to another model");
}

TEST_F(Refusal, files_that_are_no_sessions) {
  expect_refused(folder.file("absent"), RUNNEL_IO, "No such file");
  expect_refused(folder.path().string(), RUNNEL_IO, "directory");
  expect_refused(demo_model(), RUNNEL_BAD_FILE, "no session file");
  write_bytes(folder.file("empty"), "");
  expect_refused(folder.file("empty"), RUNNEL_BAD_FILE, "empty");
  const std::string bytes = read_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() - 1));
  expect_refused(path, RUNNEL_BAD_FILE, "cut short");
  write_bytes(path, bytes + "x");
  expect_refused(path, RUNNEL_BAD_FILE, "size of the file at offset 24");
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(~damaged[bytes.size() / 2]);
  write_bytes(path, damaged);
  expect_refused(path, RUNNEL_BAD_FILE, "checksum of section cache at offset");
  damaged = bytes;
  damaged[8] = 9;
  write_bytes(path, damaged);
  expect_refused(path, RUNNEL_UNSUPPORTED, "newer");
}

TEST_F(Refusal, a_chat_wants_a_conversation_in_its_own_form) {
  const Talk talk(model.get(), settings);
  EXPECT_EQ(runnel_chat_load(talk.chat.get(), path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("without a conversation"), std::string::npos);
  talk.say(lines[0]);
  require(runnel_chat_save(talk.chat.get(), path.c_str()));

  session = open_with(model.get(), settings);
  runnel_chat* other = nullptr;
  require(runnel_chat_open(session.get(), config({{"template", "chatml"}}).get(), &other));
  EXPECT_EQ(runnel_chat_load(other, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("this one has chatml"), std::string::npos)
      << runnel_last_error();
  runnel_chat_close(other);
}

TEST_F(Refusal, null_arguments) {
  const Talk talk(model.get(), settings);
  EXPECT_EQ(runnel_session_save(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_save(session.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_load(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_load(session.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_save(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_save(talk.chat.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_load(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_load(talk.chat.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_message(nullptr, 0, nullptr, nullptr), nullptr);
}

TEST_F(Refusal, places_that_cannot_be_written) {
  EXPECT_EQ(runnel_session_save(session.get(), folder.file("none/session").c_str()), RUNNEL_IO);
  EXPECT_NE(std::string(runnel_last_error()).find("No such file"), std::string::npos);
  EXPECT_EQ(runnel_session_save(session.get(), "/dev/full"), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("not a regular file"), std::string::npos);
  EXPECT_EQ(runnel_session_save(session.get(), ""), RUNNEL_IO);
}

TEST_F(Refusal, a_read_only_place_leaves_the_old_file) {
  const std::string old = read_bytes(path);
  const bool is_root = ::geteuid() == 0;  // who may write to any folder but those that are no folders
  using std::filesystem::perms;
  std::filesystem::permissions(folder.path(), perms::owner_read | perms::owner_exec);
  const std::string place = is_root ? "/sys/runnel-test" : path;
  EXPECT_EQ(runnel_session_save(session.get(), place.c_str()), RUNNEL_IO);
  EXPECT_NE(std::string(runnel_last_error()).find(place + ": cannot be created"), std::string::npos)
      << runnel_last_error();
  std::filesystem::permissions(folder.path(), perms::owner_all);
  EXPECT_TRUE(read_bytes(path) == old);
}

// A disk that is full after n bytes, as far as a process can make one.
class FullDisk {
 public:
  explicit FullDisk(rlim_t n_bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{n_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Refusal, a_full_disk_leaves_the_old_file) {
  const std::string old = read_bytes(path);
  const std::size_t n_files = folder.n_files();
  for (const rlim_t n_bytes : {0u, 100u, 30000u}) {
    const FullDisk full(n_bytes);
    EXPECT_EQ(runnel_session_save(session.get(), path.c_str()), RUNNEL_IO);
  }
  EXPECT_NE(std::string(runnel_last_error()).find("cannot be written (after"), std::string::npos);
  EXPECT_TRUE(read_bytes(path) == old);
  EXPECT_EQ(folder.n_files(), n_files);
  require(runnel_session_load(session.get(), path.c_str()));
}

}  // namespace
