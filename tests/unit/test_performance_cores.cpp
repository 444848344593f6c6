// The cores that are worth a thread, read from trees as Linux has them.
#include <gtest/gtest.h>

#include <numeric>

#include "lib/system/performance_cores.h"
#include "tests/support/system_tree.h"

using runnel::count_performance_cores;

namespace {

std::vector<int> first_cpus(int n) {
  std::vector<int> cpus(static_cast<std::size_t>(n));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

class PerformanceCores : public runnel::test::SystemTree {
 protected:
  using SystemTree::write;
  void write(int cpu, const std::string& name, const std::string& text) const {
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name, text);
  }
  // Core i7-12700K: eight cores of two threads each, and four efficiency cores at 0.76 of their clock.
  void write_hybrid() const {
    for (int cpu = 0; cpu < 20; ++cpu) {
      const bool is_efficient = cpu >= 16;
      write(cpu, "cpufreq/cpuinfo_max_freq", is_efficient ? "3800000\n" : "5000000\n");
      const int first = cpu / 2 * 2;
      write(cpu, "topology/thread_siblings_list",
            is_efficient ? std::to_string(cpu) + "\n"
                         : std::to_string(first) + "-" + std::to_string(first + 1) + "\n");
    }
    write("/sys/devices/cpu_core/cpus", "0-15\n");
    write("/sys/devices/cpu_atom/cpus", "16-19\n");
  }
};

TEST_F(PerformanceCores, are_all_where_nothing_is_told) {
  EXPECT_EQ(count_performance_cores(first_cpus(6), root), 6u);
  EXPECT_EQ(count_performance_cores({}, root), 1u);
}

TEST_F(PerformanceCores, are_those_of_most_capacity) {
  for (int cpu = 0; cpu < 8; ++cpu)
    write(cpu, "cpu_capacity", cpu < 4 ? "404\n" : cpu < 7 ? "948\n" : "1024\n");
  EXPECT_EQ(count_performance_cores(first_cpus(8), root), 4u);
  EXPECT_EQ(count_performance_cores({0, 1, 2, 3}, root), 4u);  // none of the others is ours
}

TEST_F(PerformanceCores, are_those_of_most_frequency) {
  for (int cpu = 0; cpu < 8; ++cpu)
    write(cpu, "cpufreq/cpuinfo_max_freq",
          cpu < 4 ? "2000000\n" : std::to_string(4000000 + cpu * 50000) + "\n");
  EXPECT_EQ(count_performance_cores(first_cpus(8), root), 4u);
}

TEST_F(PerformanceCores, of_hybrids_are_listed) {
  write_hybrid();
  EXPECT_EQ(count_performance_cores(first_cpus(20), root), 8u);
  EXPECT_EQ(count_performance_cores({0, 1, 5, 16, 17}, root), 2u);  // a second thread alone is a core
  EXPECT_EQ(count_performance_cores({16, 17, 18}, root), 3u);       // nothing but efficiency cores
}

TEST_F(PerformanceCores, may_be_listed_in_several_ranges) {
  write("/sys/devices/cpu_core/cpus", "0,2-3,6-6\n");
  EXPECT_EQ(count_performance_cores(first_cpus(8), root), 4u);
  for (const char* damaged : {"", "\n", "x", ",", "-", "-1", "99999999999999999999"}) {
    write("/sys/devices/cpu_core/cpus", damaged);
    EXPECT_EQ(count_performance_cores(first_cpus(8), root), 8u) << damaged;
  }
}

}  // namespace
