// Leaving a core: the thread is on another one, and may still run where it could before.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "lib/system/core.h"
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#endif

namespace runnel {
namespace {

#if defined(__linux__)

cpu_set_t allowed_cores() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

// On a thread of its own, whose cores nobody else's test depends on.
template <class Check>
void on_thread(Check check) {
  std::thread(check).join();
}

TEST(Core, LeavesItAndMayComeBack) {
  if (const cpu_set_t allowed = allowed_cores(); CPU_COUNT(&allowed) < 2)
    GTEST_SKIP() << "one core: there is no other";
  if (prctl(PR_GET_SECCOMP) != 0)
    GTEST_SKIP() << "system calls are filtered: threads are left where they are";
  on_thread([] {
    const cpu_set_t before = allowed_cores();
    bool on_another = false;
    // The system may have moved it before the call, or move it back after it.
    for (int attempt = 0; attempt < 100 && !on_another; ++attempt) {
      const int core = current_core();
      on_another = leave_core(core, 2) && current_core() != core;
    }
    EXPECT_TRUE(on_another);
    const cpu_set_t after = allowed_cores();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  });
}

TEST(Core, StaysWhereItHasNoOther) {
  on_thread([] {
    const int core = current_core();
    ASSERT_GE(core, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_FALSE(leave_core(core, 1));
    EXPECT_FALSE(leave_core(core, 2));
    EXPECT_EQ(current_core(), core);
    const cpu_set_t after = allowed_cores();
    EXPECT_TRUE(CPU_EQUAL(&one, &after));
  });
}

TEST(Core, StaysWhereTheTeamHasMoreThreadsThanCores) {
  const cpu_set_t allowed = allowed_cores();
  const auto n_cores = static_cast<std::size_t>(CPU_COUNT(&allowed));
  for (int attempt = 0; attempt < 20; ++attempt) EXPECT_FALSE(leave_core(current_core(), n_cores + 1));
}

// Ends this process at its first attempt to set where a thread may run, as a sandbox may.
bool forbid_setting_cores() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Core, StaysWhereSystemCallsAreFiltered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has left no core yet
  constexpr int no_filters = 2;
  bool is_filtered = true;
  const auto has_stayed = [&is_filtered](int status) {
    is_filtered = !WIFEXITED(status) || WEXITSTATUS(status) != no_filters;
    return WIFEXITED(status) && WEXITSTATUS(status) != 1;
  };
  EXPECT_EXIT(
      {
        if (!forbid_setting_cores()) std::exit(no_filters);
        for (int attempt = 0; attempt < 20; ++attempt)
          if (leave_core(current_core(), 1)) std::exit(1);
        std::exit(0);
      },
      has_stayed, "");
  if (!is_filtered) GTEST_SKIP() << "this system does not let a process filter its own system calls";
}

#endif

TEST(Core, StaysWhereItIsNotOnTheOneToLeave) {
  for (const int core : {-1, 1'000'000}) EXPECT_FALSE(leave_core(core, 1)) << core;
}

}  // namespace
}  // namespace runnel
