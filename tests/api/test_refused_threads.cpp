// A process that the system gives no more threads goes on with those it has, to the same logits.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/api.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

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
