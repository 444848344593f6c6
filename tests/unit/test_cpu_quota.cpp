// The CPU time that control groups leave a process, read from trees as Linux has them.
#include <gtest/gtest.h>

#include <cstdint>

#include "lib/system/cpu_quota.h"
#include "tests/support/system_tree.h"

using runnel::cpu_quota;

namespace {

using CpuQuota = runnel::test::SystemTree;

TEST_F(CpuQuota, is_unlimited_where_nothing_says_otherwise) {
  EXPECT_EQ(cpu_quota(root), SIZE_MAX);
  write("/proc/self/cgroup", "0::/user.slice\n");
  EXPECT_EQ(cpu_quota(root), SIZE_MAX);
  write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root), SIZE_MAX);
}

TEST_F(CpuQuota, is_the_least_of_a_group_and_those_around_it) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "600000 100000\n");
  EXPECT_EQ(cpu_quota(root), 6u);
  write("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(root), 3u);
  write("/sys/fs/cgroup/cpu.max", "100000 50000\n");
  EXPECT_EQ(cpu_quota(root), 2u);
}

TEST_F(CpuQuota, is_in_whole_cores_and_at_least_one) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "390000 100000\n");
  EXPECT_EQ(cpu_quota(root), 3u);
  write("/sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(cpu_quota(root), 1u);
}

// A container of version 1 sees the host's path, and its own group as the root.
TEST_F(CpuQuota, is_found_in_version_1) {
  write("/proc/self/cgroup",
        "5:memory:/m\n3:cpuset:/s\n2:cpuacct,cpu:/docker/0123\n1:name=systemd:/docker/0123\n0::/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root), SIZE_MAX);
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cpu_quota(root), 2u);
}

TEST_F(CpuQuota, takes_what_it_cannot_read_for_no_limit) {
  const std::string lines[] = {"",
                               "\n",
                               "0",
                               "0:",
                               "0::",
                               "0::\n",
                               "0::relative\n",
                               "::::\n",
                               "1:cpu,:/\n",
                               "0::/../..\n",
                               std::string(10000, 'x') + "\n",
                               std::string("\0:\0:/\n", 6)};
  const std::string limits[] = {"",          "max",       "100000",
                                "0 0",       "-5 100000", "100000 0",
                                "100000 -1", "x 100000",  "99999999999999999999999 x"};
  for (const std::string& line : lines) {
    for (const std::string& limit : limits) {
      SCOPED_TRACE(line.substr(0, 40) + " | " + limit);
      write("/proc/self/cgroup", line);
      write("/sys/fs/cgroup/cpu.max", limit);
      write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", limit);
      EXPECT_EQ(cpu_quota(root), SIZE_MAX);
    }
  }
}

}  // namespace
