// A host that forks: threads are not inherited, and what waits for them would wait for ever.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/api.h"
#include "tests/support/child.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

// The exit code of a process that forks a while after another of its threads began to find out what the
// machine has.
int fork_amid(void (*first_call)(), std::chrono::microseconds after) {
  using Clock = std::chrono::steady_clock;
  return exit_code_of_child([=] {
    std::atomic<bool> begun{false};
    std::thread other([&] {
      begun = true;
      first_call();
    });
    while (!begun) std::this_thread::yield();
    for (const Clock::time_point end = Clock::now() + after; Clock::now() < end;) continue;
    const int code = exit_code_of_child([=] { return first_call(), 0; });
    other.join();
    return code;
  });
}

// Before all others, whose calls would be the first.
TEST(ForkedProcess, while_another_thread_makes_the_first_call) {
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
  GTEST_SKIP() << "the sanitizer's own allocator leaves its locks with the child";
#endif
  for (int i = 0; i < 100; ++i) {
    const std::chrono::microseconds after(5 * (i % 20));
    ASSERT_EQ(fork_amid([] { runnel_isa(); }, after), 0);
    ASSERT_EQ(fork_amid([] { runnel_default_threads(); }, after), 0);
  }
}

TEST(ForkedProcess, works_to_the_same_logits) {
  const auto model = open_model(demo_model());
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
  const std::vector<std::int32_t> tokens = tokenize(model.get(), "The water runs down to the sea.", 0);
  const auto session = open_session(model.get(), {{"threads", "4"}});
  const std::vector<float> expected = feed_for_logits(session.get(), n_vocab, tokens);
  const auto in_child = [&] {
    require(runnel_session_reset(session.get()));
    const bool same = feed_for_logits(session.get(), n_vocab, tokens) == expected;
    const auto fresh = open_session(model.get(), {{"threads", "8"}});
    return same && feed_for_logits(fresh.get(), n_vocab, tokens) == expected ? 0 : 1;
  };
  EXPECT_EQ(exit_code_of_child(in_child), 0);
  require(runnel_session_reset(session.get()));  // the parent still has its threads
  EXPECT_EQ(feed_for_logits(session.get(), n_vocab, tokens), expected);
}

int feed_with_threads(const runnel_model* model, const char* n_threads) {
  const auto session = open_session(model, {{"threads", n_threads}});
  require(runnel_session_feed_text(session.get(), "Hello", 5, 0));
  return 0;
}

// What another thread holds while it starts its threads must not stay with the child.
TEST(ForkedProcess, while_other_threads_start_their_own) {
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
  GTEST_SKIP() << "the sanitizer's own allocator leaves its locks with the child";
#endif
  const auto model = open_model(demo_model());
  std::atomic<bool> done{false};
  const auto start_again_and_again = [&] {
    while (!done) std::thread([&] { feed_with_threads(model.get(), "2"); }).join();
  };
  std::array<std::thread, 3> others;
  for (std::thread& other : others) other = std::thread(start_again_and_again);
  std::thread host([&] {
    for (int i = 0; i < 50; ++i)
      ASSERT_EQ(exit_code_of_child([&] { return feed_with_threads(model.get(), "2"); }), 0);
  });
  host.join();
  done = true;
  for (std::thread& other : others) other.join();
}

}  // namespace
