// Threads beside the one that has them: each does every job once; none is left when they end; none is counted
// on in a child process.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <thread>
#include <vector>

#include "lib/system/workers.h"
#include "tests/support/child.h"
#include "tests/support/system_threads.h"

namespace runnel {
namespace {

using test::n_system_threads;
using Sizes = std::initializer_list<std::size_t>;

// How often each index was called in n_jobs jobs.
std::vector<int> count_calls(Workers& workers, int n_jobs) {
  std::vector<std::atomic<int>> calls(1 + workers.start());
  for (int i = 0; i < n_jobs; ++i) {
    workers.start();
    workers.run([&](std::size_t index) { calls.at(index).fetch_add(1); });
  }
  return {calls.begin(), calls.end()};
}

TEST(Workers, DoEachJobOnce) {
  for (const std::size_t n : Sizes{0, 1, 2, 7}) {
    Workers workers(n);
    EXPECT_EQ(count_calls(workers, 300), std::vector<int>(n + 1, 300));
  }
}

TEST(Workers, WakeUp) {
  Workers workers(2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(count_calls(workers, 1), std::vector<int>(3, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 5));  // they sleep after 4
  }
}

TEST(Workers, AreAsManyAsWereAskedForLast) {
  Workers workers(1);
  for (const std::size_t n : Sizes{1, 4, 0, 2}) {
    workers.resize(n);
    EXPECT_EQ(count_calls(workers, 20), std::vector<int>(n + 1, 20));
  }
}

// A host may have blocked nothing, and computes in another way.
TEST(Workers, LeaveSignalsToTheHostAndComputeAsUsual) {
  Workers workers(1);
  std::fesetround(FE_UPWARD);
  workers.start();
  int rounding = -1;
  sigset_t blocked;
  sigemptyset(&blocked);
  workers.run([&](std::size_t index) {
    if (index == 0) return;
    rounding = std::fegetround();
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
}

#if defined(__linux__)

TEST(Workers, EndWithTheObject) {
  const nlink_t before = n_system_threads();
  if (before == 0) GTEST_SKIP() << "/proc is not mounted";
  {
    Workers workers(3);
    EXPECT_EQ(n_system_threads(), before) << "before there is a job";
    count_calls(workers, 1);
    EXPECT_EQ(n_system_threads(), before + 3);
  }
  for (int i = 0; i < 1000 && n_system_threads() != before; ++i)  // one that was joined is on its way out
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(n_system_threads(), before);
}

#endif

void expect_child_to_have_its_own(pid_t (*fork_here)()) {
  Workers workers(2);
  count_calls(workers, 3);
  const auto works = [&] { return count_calls(workers, 3) == std::vector<int>(3, 3); };
  EXPECT_EQ(test::exit_code_of_child([&] { return works() ? 0 : 1; }, fork_here), 0);
  const auto ends = [&] {
    workers.resize(1);  // the parent's are not waited for
    return 0;
  };
  EXPECT_EQ(test::exit_code_of_child(ends, fork_here), 0);
  EXPECT_TRUE(works()) << "the parent has them as before";
}

TEST(Workers, OfAChildAreItsOwn) { expect_child_to_have_its_own(fork); }

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
TEST(Workers, OfAChildThatCallsNoForkHandlers) { expect_child_to_have_its_own(_Fork); }
#endif

}  // namespace
}  // namespace runnel
