// Calls that end when they are to: after their tokens, and by runnel_session_stop() wherever it comes.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/continuation.h"
#include "tests/support/folder.h"
#include "tests/support/native_window.h"

namespace {

using namespace runnel::test;

constexpr int too_many = 200;  // pieces: a call that goes on for so long has lost its stop

// Stops a session at one of the pieces of text it gives, or at one of the rows that an observer sees.
struct Stopper {
  runnel_session* session;
  int at_piece = -1, at_row = -1;
  int n_pieces = 0, n_rows = 0;

  static int piece(void* self, const char*, std::size_t, std::int32_t) {
    auto* stopper = static_cast<Stopper*>(self);
    if (++stopper->n_pieces == stopper->at_piece) runnel_session_stop(stopper->session);
    return stopper->n_pieces < too_many ? 0 : 1;
  }
  static void row(void* self, runnel_site, std::int32_t, std::int64_t, const float*, std::size_t) {
    auto* stopper = static_cast<Stopper*>(self);
    if (++stopper->n_rows == stopper->at_row) runnel_session_stop(stopper->session);
  }
};

class Stopping : public testing::Test {
 protected:
  ModelHandle model = open_model(demo_model());
  const std::size_t n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));

  // Of a model that ends its text at once, every time.
  SessionHandle ending_session() const {
    const auto eos = runnel_model_fact(model.get(), RUNNEL_TOKEN_EOS);
    return open_session(model.get(), {{"logit_bias", std::to_string(eos) + "=1000"}, {"threads", "1"}});
  }
  SessionHandle endless_session() const {
    return open_session(model.get(), {{"ignore_eos", "true"}, {"threads", "1"}});
  }
};

TEST_F(Stopping, continuing_ends_after_its_tokens) {
  const auto ending = ending_session(), usual = open_session(model.get(), {{"threads", "1"}});
  for (const SessionHandle* session : {&ending, &usual}) {
    const auto chat = open_chat(session->get());
    for (const std::int64_t n : {0, 1, 5, 40}) {
      const std::int64_t before = position(*session);
      if (before == 0) require(runnel_chat_say(chat.get(), "hi", 2, 0, nullptr, nullptr, nullptr));
      const std::int64_t start = position(*session);
      Stopper counter{session->get()};
      runnel_finish finish = RUNNEL_FINISH_STOPPED;
      require(runnel_chat_continue(chat.get(), n, Stopper::piece, &counter, &finish));
      EXPECT_EQ(finish, RUNNEL_FINISH_LENGTH);
      EXPECT_EQ(position(*session) - start, n);
      if (session == &ending) {
        EXPECT_EQ(counter.n_pieces, n);  // a line break each
      }
    }
    require(runnel_chat_say(chat.get(), "and now?", 8, 3, nullptr, nullptr, nullptr));
  }
}

TEST_F(Stopping, any_piece_can_end_what_has_no_end) {
  const auto ending = ending_session(), endless = endless_session();
  for (const SessionHandle* session : {&ending, &endless}) {
    for (int at = 1; at <= 8; ++at) {
      const auto chat = open_chat(session->get());
      Stopper stopper{session->get()};
      stopper.at_piece = at;
      runnel_finish finish = RUNNEL_FINISH_LENGTH;
      require(runnel_chat_continue(chat.get(), -1, Stopper::piece, &stopper, &finish));
      EXPECT_EQ(finish, RUNNEL_FINISH_STOPPED);
      EXPECT_LE(stopper.n_pieces, at + 1);  // what was held back may come yet
    }
  }
  for (int at = 1; at <= 8; ++at) {
    const auto chat = open_chat(endless.get());
    for (const bool again : {false, true}) {
      Stopper stopper{endless.get()};
      stopper.at_piece = at;
      runnel_finish finish = RUNNEL_FINISH_LENGTH;
      require(again ? runnel_chat_again(chat.get(), -1, Stopper::piece, &stopper, &finish)
                    : runnel_chat_say(chat.get(), "hi", 2, -1, Stopper::piece, &stopper, &finish));
      EXPECT_EQ(finish, RUNNEL_FINISH_STOPPED);
      EXPECT_LE(stopper.n_pieces, at + 1);
    }
  }
}

// What was broken off is not part of the speed of reading.
TEST_F(Stopping, a_batch_that_was_not_read_took_no_time) {
  const auto session = open_session(model.get(), {{"batch", "8"}, {"threads", "1"}});
  const auto fed = [&] {
    return std::pair(runnel_session_stat(session.get(), RUNNEL_STAT_FED_TOKENS),
                     runnel_session_stat(session.get(), RUNNEL_STAT_FED_US));
  };
  const std::vector<std::int32_t> tokens(12, 5);
  Stopper stopper{session.get()};
  require(runnel_session_observe(session.get(), Stopper::row, nullptr, &stopper));
  stopper.at_row = 1;
  EXPECT_EQ(runnel_session_feed(session.get(), tokens.data(), 8, nullptr, nullptr), RUNNEL_STOPPED);
  EXPECT_EQ(fed(), std::pair(std::int64_t{0}, std::int64_t{0}));
  require(runnel_session_feed(session.get(), tokens.data(), 12, nullptr, nullptr));
  EXPECT_EQ(fed().first, 12);
  EXPECT_GT(fed().second, 0);
}

// While a call reads, between what it reads and what it generates, and while it generates.
TEST_F(Stopping, any_moment_of_a_call_will_do) {
  const auto ending = ending_session(), endless = endless_session();
  using Call = runnel_status (*)(runnel_chat*, Stopper*, runnel_finish*);
  const Call say = [](runnel_chat* chat, Stopper* stopper, runnel_finish* finish) {
    return runnel_chat_say(chat, "How are you?", 12, -1, Stopper::piece, stopper, finish);
  };
  const Call again = [](runnel_chat* chat, Stopper* stopper, runnel_finish* finish) {
    return runnel_chat_again(chat, -1, Stopper::piece, stopper, finish);
  };
  const Call go_on = [](runnel_chat* chat, Stopper* stopper, runnel_finish* finish) {
    return runnel_chat_continue(chat, -1, Stopper::piece, stopper, finish);
  };
  const Call pin = [](runnel_chat* chat, Stopper*, runnel_finish*) {
    return runnel_chat_pin(chat, "Be brief.", 9);
  };
  const std::pair<Call, const SessionHandle*> calls[] = {
      {say, &endless}, {again, &endless}, {go_on, &endless}, {go_on, &ending}, {pin, &endless}};
  for (const auto& [call, session] : calls) {
    bool while_reading = false, while_generating = false;
    for (int at = 1; at < 1000; at += 31) {
      SCOPED_TRACE(at);
      const auto chat = open_chat(session->get());
      require(runnel_chat_say(chat.get(), "hi", 2, 3, nullptr, nullptr, nullptr));
      Stopper stopper{session->get()};
      stopper.at_row = at;
      require(runnel_session_observe(session->get(), Stopper::row, nullptr, &stopper));
      runnel_finish finish = RUNNEL_FINISH_STOPPED;
      const runnel_status status = call(chat.get(), &stopper, &finish);
      require(runnel_session_observe(session->get(), nullptr, nullptr, nullptr));
      if (stopper.n_rows < at) break;  // it had read all before
      EXPECT_TRUE(status == RUNNEL_STOPPED || (status == RUNNEL_OK && call != pin)) << status;
      (status == RUNNEL_OK ? while_generating : while_reading) = true;
      EXPECT_EQ(finish, RUNNEL_FINISH_STOPPED);
      EXPECT_LT(stopper.n_pieces, too_many);
      require(runnel_chat_say(chat.get(), "Go on.", 6, 3, nullptr, nullptr, nullptr));
    }
    EXPECT_EQ(while_reading, call == say || call == pin);
    EXPECT_EQ(while_generating, call != pin);
  }
}

// Stops a session in layer 1 of the batch that begins at a position.
struct BatchStopper {
  runnel_session* session;
  std::int64_t at;

  static void row(void* self, runnel_site, std::int32_t layer, std::int64_t position, const float*,
                  std::size_t) {
    const auto* stopper = static_cast<const BatchStopper*>(self);
    if (layer == 1 && position == stopper->at) runnel_session_stop(stopper->session);
  }
};

// A batch that was given up leaves the session as if it had never been begun, a full window too: what it had
// stored took the place of tokens that nobody sees.
TEST_F(Stopping, a_batch_can_be_given_up_in_the_middle) {
  const Settings settings = {{"batch", "32"}, {"window", "60"}, {"threads", "2"}};
  const std::vector<std::int32_t> tokens = some_tokens(700);
  for (const std::size_t n_before : {0u, 1u, 3u, 20u, 50u, 300u})
    for (const std::size_t n_batches : {0u, 1u, 6u}) {
      SCOPED_TRACE(n_before);
      SCOPED_TRACE(n_batches);
      const auto session = open_session(model.get(), settings),
                 expected = open_session(model.get(), settings);
      if (n_before > 0) {
        require(runnel_session_feed(session.get(), tokens.data(), n_before, nullptr, nullptr));
        require(runnel_session_feed(expected.get(), tokens.data(), n_before, nullptr, nullptr));
      }
      const std::size_t n_read = n_before + n_batches * 32;
      BatchStopper stopper{session.get(), static_cast<std::int64_t>(n_read)};
      require(runnel_session_observe(session.get(), BatchStopper::row, nullptr, &stopper));
      EXPECT_EQ(runnel_session_feed(session.get(), tokens.data() + n_before, 350, nullptr, nullptr),
                RUNNEL_STOPPED);
      require(runnel_session_observe(session.get(), nullptr, nullptr, nullptr));
      EXPECT_EQ(position(session), n_read);
      EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_FED_TOKENS), n_read);

      if (n_read > n_before)
        require(runnel_session_feed(expected.get(), tokens.data() + n_before, n_read - n_before, nullptr,
                                    nullptr));
      EXPECT_EQ(logits_of(session.get(), n_vocab), logits_of(expected.get(), n_vocab));
      EXPECT_EQ(logits_of(session.get(), n_vocab).empty(), n_read == 0);
      for (const SessionHandle* each : {&session, &expected})
        require(runnel_session_feed(each->get(), tokens.data() + 400, 100, nullptr, nullptr));
      EXPECT_EQ(logits_of(session.get(), n_vocab), logits_of(expected.get(), n_vocab));
    }
}

// The logits of a batch come in several parts where it is large: those of its last token too, whoever stops.
TEST_F(Stopping, a_refused_reading_can_be_gone_on_from) {
  const std::vector<std::int32_t> tokens(1500, 300);
  const auto session = open_session(model.get(), {{"batch", "2048"}, {"window", "2048"}, {"threads", "1"}});
  const auto refuse_third = [](void*, std::int64_t position, const float*) { return position == 2 ? 1 : 0; };
  EXPECT_EQ(runnel_session_feed(session.get(), tokens.data(), tokens.size(), refuse_third, nullptr),
            RUNNEL_STOPPED);
  EXPECT_EQ(position(session), 1500);
  ASSERT_NE(runnel_session_logits(session.get()), nullptr);
  std::int32_t token = -1;
  EXPECT_EQ(runnel_session_sample(session.get(), &token), RUNNEL_OK);
}

// Hears of reading, and ends it from one share on.
struct Listener {
  runnel_session* session;
  double until = 2;
  std::vector<double> shares = {};
  int n_refused = 0;

  static int progress(void* self, double fraction) {
    auto* listener = static_cast<Listener*>(self);
    listener->shares.push_back(fraction);
    const std::int32_t token = 1;
    listener->n_refused +=
        runnel_session_feed(listener->session, &token, 1, nullptr, nullptr) == RUNNEL_BAD_ARGUMENT ? 1 : 0;
    return fraction >= listener->until ? 1 : 0;
  }
};

TEST_F(Stopping, reading_is_told_of_batch_by_batch) {
  const auto session =
      open_session(model.get(), {{"batch", "16"}, {"window", "200"}, {"ignore_eos", "true"}});
  Listener listener{session.get()};
  require(runnel_session_on_progress(session.get(), Listener::progress, &listener));
  const std::vector<std::int32_t> tokens(64, 300);
  feed(session.get(), tokens);
  EXPECT_EQ(listener.shares, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(listener.n_refused, 4);

  listener.shares.clear();
  require(runnel_session_generate(session.get(), 3, nullptr, nullptr, nullptr));
  EXPECT_TRUE(listener.shares.empty());

  listener.until = 0.5;
  EXPECT_EQ(runnel_session_feed(session.get(), tokens.data(), tokens.size(), nullptr, nullptr),
            RUNNEL_STOPPED);
  EXPECT_EQ(listener.shares, (std::vector<double>{0.25, 0.5}));
  EXPECT_EQ(position(session), 64 + 3 + 32);

  require(runnel_session_on_progress(session.get(), nullptr, nullptr));
  feed(session.get(), tokens);
  EXPECT_EQ(listener.shares.size(), 2u);
}

// So is what is read again, and there too nothing else may be read in between.
TEST_F(Stopping, what_is_read_again_is_told_of) {
  const Folder folder;
  write_bytes(folder.file("model"), demo_with_native_window(16));
  const auto windowed = open_model(folder.file("model"));
  const auto session = open_session(windowed.get(), {{"batch", "8"}, {"window", "300"}, {"threads", "1"}});
  Listener listener{session.get()};
  const auto expect_refusals = [&] {
    EXPECT_GT(listener.shares.size(), 1u);
    EXPECT_EQ(listener.shares.back(), 1);
    EXPECT_EQ(listener.n_refused, static_cast<int>(listener.shares.size()));
  };
  feed(session.get(), some_tokens(100));
  require(runnel_session_on_progress(session.get(), Listener::progress, &listener));
  require(runnel_session_rewind(session.get(), 70));
  EXPECT_EQ(position(session), 70);
  expect_refusals();

  require(runnel_session_on_progress(session.get(), nullptr, nullptr));
  const auto chat = open_chat(session.get());
  require(runnel_chat_say(chat.get(), "Hello!", 6, 8, nullptr, nullptr, nullptr));
  const auto before = visible(session.get());
  require(runnel_chat_say(chat.get(), "At 7 pm.", 8, 40, nullptr, nullptr, nullptr));
  listener = {session.get()};
  require(runnel_session_on_progress(session.get(), Listener::progress, &listener));
  require(runnel_chat_undo(chat.get()));
  EXPECT_EQ(visible(session.get()), before);
  expect_refusals();
}

// Stops a session at every row from a position on.
struct ImpatientStopper {
  runnel_session* session;
  std::int64_t from;
  bool has_begun = false;

  static void row(void* self, runnel_site, std::int32_t, std::int64_t position, const float*, std::size_t) {
    auto* stopper = static_cast<ImpatientStopper*>(self);
    stopper->has_begun |= position >= stopper->from;
    if (stopper->has_begun) runnel_session_stop(stopper->session);
  }
};

// All that is seen has to be read again for that.
TEST_F(Stopping, a_message_that_is_stopped_again_and_again_is_taken_back) {
  const Folder folder;
  write_bytes(folder.file("model"), demo_with_native_window(16));
  const auto windowed = open_model(folder.file("model"));
  const auto session = open_session(windowed.get(), {{"batch", "8"}, {"window", "300"}, {"threads", "1"}});
  const auto chat = open_chat(session.get());
  require(runnel_chat_say(chat.get(), "Hello!", 6, 8, nullptr, nullptr, nullptr));
  const auto before = visible(session.get());
  ImpatientStopper stopper{session.get(), position(session) + 60};
  require(runnel_session_observe(session.get(), ImpatientStopper::row, nullptr, &stopper));
  const std::string message(200, '?');
  EXPECT_EQ(runnel_chat_say(chat.get(), message.data(), message.size(), 4, nullptr, nullptr, nullptr),
            RUNNEL_STOPPED);
  require(runnel_session_observe(session.get(), nullptr, nullptr, nullptr));
  EXPECT_GT(runnel_session_stat(session.get(), RUNNEL_STAT_REREAD_TOKENS), 8);  // a batch
  EXPECT_EQ(visible(session.get()), before);
  EXPECT_STREQ(runnel_chat_message(chat.get(), 1, nullptr, nullptr), "Hello!");
  require(runnel_chat_again(chat.get(), 4, nullptr, nullptr, nullptr));
}

// A message and a text that is pinned are read, too; a stop at the end of a message comes before its answer.
TEST_F(Stopping, a_chat_tells_of_its_reading) {
  const auto session = open_session(model.get(), {{"batch", "8"}, {"window", "300"}});
  const auto chat = open_chat(session.get());
  Listener listener{session.get()};
  require(runnel_session_on_progress(session.get(), Listener::progress, &listener));
  const std::string message = "I am looking for a restaurant in the centre that serves Italian food.";
  const auto say = [&](runnel_finish* finish) {
    return runnel_chat_say(chat.get(), message.data(), message.size(), 4, nullptr, nullptr, finish);
  };
  runnel_finish finish{};
  require(say(&finish));
  EXPECT_GT(listener.shares.size(), 1u);
  EXPECT_EQ(listener.shares.back(), 1);
  EXPECT_EQ(listener.n_refused, static_cast<int>(listener.shares.size()));
  listener.shares.clear();
  require(runnel_chat_pin(chat.get(), message.data(), message.size()));
  EXPECT_GT(listener.shares.size(), 1u);

  listener.until = 1;
  require(say(&finish));
  EXPECT_EQ(finish, RUNNEL_FINISH_STOPPED);
  const std::int64_t n_read = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION);
  listener.until = 0.5;
  EXPECT_EQ(runnel_chat_add(chat.get(), message.data(), message.size(), "None.", 5), RUNNEL_STOPPED);
  EXPECT_EQ(runnel_session_stat(session.get(), RUNNEL_STAT_POSITION), n_read);
  listener.until = 0;
  EXPECT_EQ(say(&finish), RUNNEL_STOPPED);
}

// Cancels itself, and makes calls that wait for the disk and for other threads.
void* save_and_close_cancelled(void* path) {
  const auto model = open_model(demo_model());
  auto session = open_session(model.get(), {{"threads", "2"}});
  require(runnel_session_feed_text(session.get(), "Hello", 5, 0));
  pthread_cancel(pthread_self());
  const runnel_status saved = runnel_session_save(session.get(), static_cast<const char*>(path));
  session.reset();
  if (saved == RUNNEL_OK) pthread_testcancel();
  return nullptr;
}

// In a process of its own, which would be ended.
TEST_F(Stopping, a_thread_that_is_cancelled_ends_after_its_call) {
  const Folder folder;
  std::string path = folder.file("session");
  const auto cancel = [&] {
    pthread_t thread{};
    void* result = nullptr;
    if (pthread_create(&thread, nullptr, save_and_close_cancelled, path.data()) != 0) return 1;
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED ? 0 : 2;
  };
  EXPECT_EQ(exit_code_of_child(cancel), 0);
  EXPECT_EQ(folder.n_files(), 1u);
}

TEST_F(Stopping, a_stop_from_before_has_no_effect) {
  const auto session = endless_session();
  ChatHandle chat = open_chat(session.get());
  const auto finish_of = [&](auto call) {
    runnel_finish finish = RUNNEL_FINISH_STOPPED;
    runnel_session_stop(session.get());
    require(call(&finish));
    return finish;
  };
  const auto say = [&](runnel_finish* finish) {
    return runnel_chat_say(chat.get(), "hi", 2, 3, nullptr, nullptr, finish);
  };
  const auto again = [&](runnel_finish* finish) {
    return runnel_chat_again(chat.get(), 3, nullptr, nullptr, finish);
  };
  const auto go_on = [&](runnel_finish* finish) {
    return runnel_chat_continue(chat.get(), 3, nullptr, nullptr, finish);
  };
  const auto generate = [&](runnel_finish* finish) {
    return runnel_session_generate(session.get(), 3, nullptr, nullptr, finish);
  };
  EXPECT_EQ(finish_of(say), RUNNEL_FINISH_LENGTH);
  EXPECT_EQ(finish_of(again), RUNNEL_FINISH_LENGTH);
  EXPECT_EQ(finish_of(go_on), RUNNEL_FINISH_LENGTH);
  runnel_session_stop(session.get());
  require(runnel_chat_pin(chat.get(), "Be brief.", 9));
  runnel_session_stop(session.get());
  require(runnel_chat_undo(chat.get()));
  chat.reset();
  require(runnel_session_reset(session.get()));
  runnel_session_stop(session.get());
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  runnel_session_stop(session.get());
  require(runnel_session_rewind(session.get(), 3));
  EXPECT_EQ(finish_of(generate), RUNNEL_FINISH_LENGTH);
}

}  // namespace
