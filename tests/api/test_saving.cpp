// Sessions and conversations that were saved go on as if nothing had happened.
#include <sys/resource.h>

#include <csignal>

#include "tests/api/saving.h"
#include "tests/support/child.h"
#include "tests/support/golden.h"
#include "tests/support/native_window.h"
#include "tests/support/numbers.h"

namespace {

using namespace runnel::test;

TEST_F(Saving, goes_on_to_the_bit_in_every_type_and_at_every_age) {
  for (const char* type : {"f32", "f16", "int8"}) {
    for (const std::size_t n_before : {1u, 4u, 5u, 64u, 65u, 150u}) {
      SCOPED_TRACE(std::string(type) + ", after " + std::to_string(n_before) + " tokens");
      const Settings settings = with(lively, {{"cache", type}, {"window", "60"}, {"batch", "32"}});
      const auto session = open_session(model.get(), settings);
      const auto copy = open_session(model.get(), with(settings, {{"threads", n_before == 65 ? "2" : "1"}}));
      feed(session.get(), some_tokens(n_before));
      continue_for(session.get(), n_vocab(), n_before % 2 * 5);  // the random numbers have moved on, or not
      expect_same_future(session.get(), copy.get(), 40);
    }
  }
}

TEST_F(Saving, every_family) {
  for (const char* name : golden_models) {
    SCOPED_TRACE(name);
    const std::string path = std::string("golden/") + name + ".gguf";
    RUNNEL_NEEDS_SHARED(path);
    model = open_model(shared(path));
    for (const char* type : {"f32", "int8"}) {
      const Settings settings =
          with(lively, {{"cache", type}, {"sinks", "2"}, {"window", "30"}, {"batch", "8"}});
      const auto session = open_session(model.get(), settings);
      const auto copy = open_session(model.get(), settings);
      feed(session.get(), some_tokens(77, n_vocab()));
      expect_same_future(session.get(), copy.get(), 40);
    }
  }
}

// Text is asked for token by token, and after each the session goes on elsewhere.
TEST_F(Saving, amid_a_character_and_a_stop_text) {
  const std::string said = "\U0001F642 and \u00E9";  // of which the vocabulary has bytes only
  std::vector<std::int32_t> tokens(32);
  std::size_t n_tokens = 0;
  require(runnel_tokenize(model.get(), said.data(), said.size(), 0, tokens.data(), tokens.size(), &n_tokens));
  tokens.resize(n_tokens);
  ASSERT_GT(n_tokens, 6u);
  const std::string path = folder.file("session");
  const auto forced = [&](const std::string& stop, runnel_finish& finish) {
    const Settings settings = {{"temperature", "0"}, {"stop", stop}};
    SessionHandle here = open_session(model.get(), settings), there = open_session(model.get(), settings);
    feed(here.get(), {5, 6, 7});
    std::string text;
    for (const std::int32_t token : tokens) {
      require(runnel_session_set(here.get(), "logit_bias", (std::to_string(token) + "=1000").c_str()));
      require(runnel_session_generate(here.get(), 1, append, &text, &finish));
      if (finish != RUNNEL_FINISH_LENGTH) break;
      require(runnel_session_save(here.get(), path.c_str()));
      require(runnel_session_load(there.get(), path.c_str()));
      std::swap(here, there);
    }
    return text;
  };
  runnel_finish finish{};
  EXPECT_NE(forced("", finish).find(said), std::string::npos);
  EXPECT_EQ(finish, RUNNEL_FINISH_LENGTH);
  const std::string text = forced("d \u00E9", finish);
  EXPECT_EQ(finish, RUNNEL_FINISH_STOP_TEXT);
  EXPECT_EQ(text.find("\u00E9"), std::string::npos) << text;
}

TEST_F(Saving, a_session_that_has_read_nothing) {
  const auto session = open_session(model.get(), lively);
  const auto copy = open_session(model.get(), lively);
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

// Amid a feed there are no logits to save. The last token is read again for them.
TEST_F(Saving, what_is_saved_amid_a_feed_gets_its_logits_by_going_back) {
  const Settings settings = with(lively, {{"batch", "4"}});
  const auto session = open_session(model.get(), settings);
  struct Saver {
    runnel_session* session;
    std::string path;
  } saver{session.get(), folder.file("session")};
  const auto save_once = [](void* user, double) {
    const Saver& to = *static_cast<Saver*>(user);
    if (!std::filesystem::exists(to.path)) require(runnel_session_save(to.session, to.path.c_str()));
    return 0;
  };
  require(runnel_session_on_progress(session.get(), save_once, &saver));
  const std::vector<std::int32_t> tokens = {5, 6, 7, 8, 9, 10, 11, 12};
  feed(session.get(), tokens);
  const auto copy = open_session(model.get(), settings), other = open_session(model.get(), settings);
  require(runnel_session_load(copy.get(), saver.path.c_str()));
  const std::int64_t position = runnel_session_stat(copy.get(), RUNNEL_STAT_POSITION);
  ASSERT_GT(position, 0);
  ASSERT_EQ(runnel_session_logits(copy.get()), nullptr);
  require(runnel_session_rewind(copy.get(), position));
  feed(other.get(), {tokens.begin(), tokens.begin() + position});
  EXPECT_TRUE(continue_for(copy.get(), n_vocab(), 20) == continue_for(other.get(), n_vocab(), 20));
}

TEST_F(Saving, the_model_is_not_overwritten) {
  const std::string path = folder.file("model.gguf");
  std::filesystem::copy_file(demo_model(), path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::create_symlink(path, folder.file("link"));
  for (const char* int8 : {"false", "true"}) {  // packed in memory, too, it comes from that file
    const ModelHandle copy = open_model(path, {{"int8", int8}});
    const auto session = open_session(copy.get(), lively);
    for (const std::string& to : {path, folder.file("link")}) {
      EXPECT_EQ(runnel_session_save(session.get(), to.c_str()), RUNNEL_BAD_ARGUMENT) << int8;
      EXPECT_EQ(std::filesystem::file_size(path), size);
    }
  }
}

// A first message that could not be read leaves a conversation in which nothing was said, opening included.
TEST_F(Saving, a_chat_whose_first_message_was_refused) {
  const Settings settings = with(lively, {{"window", "60"}, {"overflow", "error"}});
  const auto session = open_session(model.get(), settings);
  const auto copy = open_session(model.get(), settings);
  const ChatHandle chat = open_chat(session.get()), copied = open_chat(copy.get());
  const std::string much(2000, 'a');
  EXPECT_EQ(runnel_chat_say(chat.get(), much.data(), much.size(), 5, nullptr, nullptr, nullptr),
            RUNNEL_BAD_ARGUMENT);
  const std::string path = folder.file("chat");
  require(runnel_chat_save(chat.get(), path.c_str()));
  require(runnel_chat_load(copied.get(), path.c_str()));
  for (runnel_chat* each : {chat.get(), copied.get()})
    require(runnel_chat_say(each, "Hello!", 6, 5, nullptr, nullptr, nullptr));
  EXPECT_EQ(visible(copy.get()), visible(session.get()));
}

TEST_F(Saving, pinned_prefix_marked_turns_and_rewound_streams) {
  for (const char* type : {"f32", "f16", "int8"}) {
    SCOPED_TRACE(type);
    const Settings settings =
        with(lively, {{"cache", type}, {"window", "60"}, {"batch", "16"}, {"evict", "turn"}});
    const auto session = open_session(model.get(), settings);
    const auto copy = open_session(model.get(), settings);
    require(runnel_session_pin(session.get(), 13));
    for (int turn = 0; turn < 9; ++turn) {
      feed(session.get(), some_tokens(14));
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

// Whatever a chat had left behind in the session that a file is loaded into.
TEST_F(Saving, into_a_session_that_has_been_a_chat) {
  const auto session = open_session(model.get(), {{"window", "40"}, {"temperature", "0"}});
  feed(session.get(), some_tokens(60));
  const auto copy = open_session(model.get(), {{"window", "40"}, {"temperature", "0"}});
  open_chat(copy.get());  // and closed
  require(runnel_session_mark_turn(session.get()));
  expect_same_future(session.get(), copy.get(), 60);
}

// Its logits are not there yet, and its tokens are.
TEST_F(Saving, not_while_logits_are_given) {
  const auto session = open_session(model.get());
  struct Call {
    runnel_session* session;
    std::string path;
    int n_refused = 0;
  } call{session.get(), folder.file("session")};
  const auto on_logits = [](void* user, std::int64_t, const float*) {
    auto& c = *static_cast<Call*>(user);
    c.n_refused += runnel_session_save(c.session, c.path.c_str()) == RUNNEL_BAD_ARGUMENT ? 1 : 0;
    return 0;
  };
  const auto tokens = some_tokens(5);
  require(runnel_session_feed(session.get(), tokens.data(), tokens.size(), on_logits, &call));
  EXPECT_EQ(call.n_refused, 5);
  EXPECT_FALSE(std::filesystem::exists(call.path));
  require(runnel_session_save(session.get(), call.path.c_str()));
}

// Where a limit on the size of files would end the process with a signal.
TEST_F(Saving, a_file_beyond_the_limit_is_an_error) {
  const auto session = open_session(model.get());
  feed(session.get(), some_tokens(200));
  const auto save_with_limit = [&] {
    constexpr rlimit limit{4096, 4096};
    std::signal(SIGXFSZ, SIG_DFL);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    return runnel_session_save(session.get(), folder.file("session").c_str()) == RUNNEL_IO ? 0 : 2;
  };
  EXPECT_EQ(exit_code_of_child(save_with_limit), 0);
  EXPECT_EQ(folder.n_files(), 0u);
}

// Saves whenever reading is told of.
struct SavingListener {
  runnel_chat* chat;
  std::string path;
  int n = 0, n_refused = 0;

  static int progress(void* self, double) {
    auto& listener = *static_cast<SavingListener*>(self);
    ++listener.n;
    listener.n_refused +=
        runnel_chat_save(listener.chat, listener.path.c_str()) == RUNNEL_BAD_ARGUMENT ? 1 : 0;
    return 0;
  }
};

// What is said is in the stream in part, and not in the transcript.
TEST_F(Saving, not_while_a_message_is_read) {
  const auto session = open_session(model.get(), {{"batch", "8"}});
  const auto chat = open_chat(session.get());
  SavingListener call{chat.get(), folder.file("chat")};
  require(runnel_session_on_progress(session.get(), SavingListener::progress, &call));
  const std::string message = "I am looking for a restaurant in the centre that serves Italian food.";
  require(runnel_chat_say(chat.get(), message.data(), message.size(), 4, nullptr, nullptr, nullptr));
  require(runnel_chat_pin(chat.get(), message.data(), message.size()));
  EXPECT_GT(call.n, 4);
  EXPECT_EQ(call.n_refused, call.n);
  EXPECT_FALSE(std::filesystem::exists(call.path));
  require(runnel_chat_save(chat.get(), call.path.c_str()));
}

// Of what is read again the stream holds less than the conversation tells of.
TEST_F(Saving, not_while_anything_is_read_again) {
  write_bytes(folder.file("model"), demo_with_native_window(16));
  const auto windowed = open_model(folder.file("model"));
  const Talk talk(windowed.get(), {{"batch", "8"}, {"window", "300"}, {"ignore_eos", "true"}});
  SavingListener call{talk.chat.get(), folder.file("chat")};
  for (const char* line : lines) talk.say(line);
  require(runnel_session_on_progress(talk.session.get(), SavingListener::progress, &call));
  talk.again();
  const int n_again = call.n;
  require(runnel_chat_undo(talk.chat.get()));
  EXPECT_GT(n_again, 4);
  EXPECT_GT(call.n, n_again + 4);
  EXPECT_EQ(call.n_refused, call.n);
  require(runnel_chat_save(talk.chat.get(), call.path.c_str()));
  require(runnel_chat_load(talk.chat.get(), call.path.c_str()));
}

// The keys lie elsewhere in a ring of another size, so that sums over them are made in another order.
TEST_F(Saving, another_batch_is_the_same_but_for_rounding) {
  for (const auto& [batch, other] : {std::pair{"1", "32"}, {"32", "1"}, {"8", "32"}}) {
    SCOPED_TRACE(std::string(batch) + " and " + other);
    const Settings settings = {{"window", "60"}, {"cache", "f32"}};
    const auto session = open_session(model.get(), with(settings, {{"batch", batch}}));
    const auto copy = open_session(model.get(), with(settings, {{"batch", other}}));
    feed(session.get(), some_tokens(150));
    require(runnel_session_save(session.get(), folder.file("session").c_str()));
    require(runnel_session_load(copy.get(), folder.file("session").c_str()));
    EXPECT_EQ(visible(copy.get()), visible(session.get()));
    for (const std::int32_t token : some_tokens(70)) {
      feed(session.get(), {token});
      feed(copy.get(), {token});
      const auto a = logits_of(copy.get(), n_vocab()), b = logits_of(session.get(), n_vocab());
      ASSERT_LT(nmse(a.data(), b.data(), n_vocab()), 1e-9);
    }
  }
}

TEST_F(Saving, the_file_is_as_large_as_what_the_cache_holds) {
  const auto session = open_session(model.get(), {{"window", "4000"}});
  const std::string path = folder.file("session");
  feed(session.get(), some_tokens(10));
  require(runnel_session_save(session.get(), path.c_str()));
  const auto small = std::filesystem::file_size(path);
  feed(session.get(), some_tokens(990));
  require(runnel_session_save(session.get(), path.c_str()));
  const auto large = std::filesystem::file_size(path);
  // Room for 4 sinks and for 4,000 + 255 others, both in blocks of 16.
  const auto each =
      static_cast<std::uintmax_t>(runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_BYTES)) / (16 + 4256);
  EXPECT_NEAR(static_cast<double>(large - small), static_cast<double>(990 * (each + 4)), 8192.0);
}

// ---- conversations ----

TEST_F(Saving, a_conversation_goes_on_where_it_was) {
  for (const char* evict : {"turn", "token"}) {
    for (const std::int64_t n_tokens : {3, 30}) {  // 3: the answer is cut, the turn is still open
      SCOPED_TRACE(std::string(evict) + ", answers of " + std::to_string(n_tokens));
      const Settings settings = with(lively, {{"window", "120"}, {"evict", evict}});
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

}  // namespace
