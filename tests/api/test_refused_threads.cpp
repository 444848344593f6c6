// A process that the system gives no more threads goes on with those it has, to the same logits.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/api.h"
#include "tests/support/child.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

constexpr uid_t other_user = 65533;  // that nobody else is

bool can_start_a_thread() {
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// Allows the user of this process no more threads than there are, as long as it lives.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    // The limit does not hold for root. A change of user makes a process one that cannot be traced, which is
    // how leaks are looked for.
    if (geteuid() == 0 && setuid(65534) == 0) prctl(PR_SET_DUMPABLE, 1);
    getrlimit(RLIMIT_NPROC, &usual_);
    set(1);
  }
  ~NoMoreThreads() { set(usual_.rlim_cur); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  void set(rlim_t n) const {
    const rlimit limit{n, usual_.rlim_max};
    setrlimit(RLIMIT_NPROC, &limit);
  }
  rlimit usual_{};
};

constexpr int no_user = 2, limit_not_set = 3, limit_not_kept = 4;  // exit codes of a test that tests nothing

// Sessions of four threads each on four threads of a host, whose user may have `most` in all. The exit code
// of a process of their own.
int start_side_by_side(const runnel_model* model, rlim_t most) {
  return exit_code_of_child([=] {
    if (setuid(other_user) != 0) return no_user;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) return limit_not_set;
    if (most == 1 && can_start_a_thread()) return limit_not_kept;  // the process itself is the one
    std::latch all_started(1);  // what the host takes while a session starts its threads may be theirs
    const auto work = [model, &all_started] {
      all_started.wait();
      const auto session = open_session(model, {{"threads", "4"}, {"window", "64"}});
      require(runnel_session_feed_text(session.get(), "The water", 9, 0));
    };
    std::vector<std::thread> hosts;
    try {
      for (int i = 0; i < 4; ++i) hosts.emplace_back(work);
    } catch (const std::system_error&) {  // the host's own are refused, too
    }
    all_started.count_down();
    for (std::thread& host : hosts) host.join();
    return 0;
  });
}

TEST(RefusedThreads, end_no_host_that_starts_sessions_side_by_side) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become a user whose threads are counted from none";
  const auto model = open_model(demo_model());
  for (rlim_t most = 1; most <= 16; ++most)
    for (int i = 0; i < 3; ++i) {
      const int code = start_side_by_side(model.get(), most);
      if (code == limit_not_kept) GTEST_SKIP() << "this system does not limit the threads of a user";
      EXPECT_EQ(code, 0) << most << " threads";
    }
}

// Last: the process is another user's after it.
TEST(RefusedThreads, are_done_without) {
  const auto model = open_model(demo_model());
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
  const std::vector<std::int32_t> tokens = tokenize(model.get(), "The water runs down to the sea.", 0);
  const auto alone = open_session(model.get(), {{"threads", "1"}});
  const std::vector<float> expected = feed_for_logits(alone.get(), n_vocab, tokens);

  const NoMoreThreads limit;
  if (can_start_a_thread()) GTEST_SKIP() << "this system does not limit the threads of a user";
  const auto session = open_session(model.get(), {{"threads", "4"}});
  EXPECT_EQ(feed_for_logits(session.get(), n_vocab, tokens), expected);
}

}  // namespace
