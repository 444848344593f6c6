// A process that is killed while it saves leaves the session as it was before, or as it is after.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/support/continuation.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

constexpr int n_kills = 100;
constexpr std::size_t n_start = 1200;  // tokens read before the first save, so that a file takes a while

const Settings settings = {{"window", "2000"},
                           {"cache", "f32"},
                           {"threads", "1"},
                           {"temperature", "1.1"},
                           {"repetition_penalty", "1.1"},
                           {"seed", "3"}};

// The stream is always the same: these tokens, and then what the session samples.
SessionHandle start(const runnel_model* model) {
  auto session = open_session(model, settings);
  feed(session.get(), some_tokens(n_start));
  return session;
}

void step(runnel_session* session) {
  std::int32_t token = 0;
  require(runnel_session_sample(session, &token));
  require(runnel_session_feed(session, &token, 1, nullptr, nullptr));
}

// Loads, and saves after each token for ever, telling how many tokens the last whole file has.
[[noreturn]] void write_for_ever(const runnel_model* model, const std::string& path, int to_parent) {
  try {
    const auto session = open_session(model, settings);
    require(runnel_session_load(session.get(), path.c_str()));
    for (;;) {
      step(session.get());
      require(runnel_session_save(session.get(), path.c_str()));
      const std::int64_t position = runnel_session_stat(session.get(), RUNNEL_STAT_POSITION);
      if (::write(to_parent, &position, sizeof position) != sizeof position) ::_exit(1);
    }
  } catch (...) {
    ::_exit(2);
  }
}

// Kills the writer some time after it begins; the last position that it told, or -1.
std::int64_t kill_while_saving(const runnel_model* model, const std::string& path,
                               std::chrono::microseconds wait) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) write_for_ever(model, path, ends[1]);
  ::close(ends[1]);
  std::int64_t position = -1, told = -1;
  if (::read(ends[0], &told, sizeof told) == sizeof told) position = told;  // it is at work
  std::this_thread::sleep_for(wait);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed with " << WEXITSTATUS(status);
  while (::read(ends[0], &told, sizeof told) == sizeof told) position = told;
  ::close(ends[0]);
  return position;
}

TEST(KilledSaving, leaves_the_old_or_the_new_session) {
  const auto model = open_model(demo_model());
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
  Folder folder;
  const std::string path = folder.file("session");

  // What the stream is without interruption, followed as far as the writers get.
  const auto whole = start(model.get());
  require(runnel_session_save(whole.get(), path.c_str()));
  const auto before = std::chrono::steady_clock::now();
  require(runnel_session_save(whole.get(), path.c_str()));
  // Some milliseconds, ten times as many under sanitizers; with a token it takes longer, so kills hit all of
  // it.
  const auto save_time = std::chrono::steady_clock::now() - before;
  const auto n_waits = std::max<std::int64_t>(
      8000, 2 * std::chrono::duration_cast<std::chrono::microseconds>(save_time).count());

  const auto loaded = open_session(model.get(), settings);
  std::mt19937 random(20261120);
  std::int64_t n_old = 0, n_new = 0, n_abandoned = 0;
  for (int i = 0; i < n_kills; ++i) {
    SCOPED_TRACE("kill " + std::to_string(i));
    const std::int64_t told = kill_while_saving(
        model.get(), path, std::chrono::microseconds(static_cast<std::int64_t>(random()) % n_waits));
    ASSERT_GE(told, 0);
    n_abandoned += folder.n_files() > 1;
    ASSERT_LE(folder.n_files(), 2u);

    require(runnel_session_load(loaded.get(), path.c_str()));
    const std::int64_t position = runnel_session_stat(loaded.get(), RUNNEL_STAT_POSITION);
    ASSERT_TRUE(position == told || position == told + 1) << position << " after " << told;
    (position == told ? n_old : n_new) += 1;
    while (runnel_session_stat(whole.get(), RUNNEL_STAT_POSITION) < position) step(whole.get());
    ASSERT_EQ(visible(loaded.get()), visible(whole.get()));
    ASSERT_EQ(logits_of(loaded.get(), n_vocab), logits_of(whole.get(), n_vocab));
  }
  EXPECT_TRUE(continue_for(loaded.get(), n_vocab, 100) == continue_for(whole.get(), n_vocab, 100));
  std::printf(
      "%lld times the last whole file, %lld times one newer than was told; %lld killed while writing\n",
      static_cast<long long>(n_old), static_cast<long long>(n_new), static_cast<long long>(n_abandoned));
  EXPECT_GT(n_abandoned, n_kills / 10);  // else it was not tested

  // The next one to save takes away what the last killed one left.
  require(runnel_session_save(loaded.get(), path.c_str()));
  EXPECT_EQ(folder.n_files(), 1u);
}

}  // namespace
