#include "lib/system/performance_cores.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#if defined(__linux__)
#include <sched.h>
#endif

#include "lib/system/cpu_quota.h"
#include "lib/system/system_number.h"

namespace runnel {
namespace {

// CPUs this process may run on; empty where the system does not tell.
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
#endif
  return cpus;
}

bool contains(const std::vector<int>& cpus, long cpu) {
  return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
}

// Leaves those of the list that a file holds as Linux writes it, "0-7,16". All stay where there is no file,
// or none of its CPUs is among them.
void keep_listed(std::vector<int>& cpus, const std::string& path) {
  const TextFile file = open_text(path.c_str());
  std::vector<int> kept;
  long first = 0;
  int next = ',';
  while (file && next == ',' && std::fscanf(file.get(), "%ld", &first) == 1) {
    long last = first;
    next = std::fgetc(file.get());
    if (next == '-' && std::fscanf(file.get(), "%ld", &last) == 1) next = std::fgetc(file.get());
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(kept),
                 [&](int cpu) { return cpu >= first && cpu <= last; });
  }
  if (!kept.empty()) cpus = std::move(kept);
}

// One CPU of each core.
void keep_first_siblings(std::vector<int>& cpus, const std::string& folder) {
  const std::vector<int> all = cpus;
  std::erase_if(cpus, [&](int cpu) {
    // The list starts with the core's first hardware thread.
    const long first =
        read_number(folder + "/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", cpu);
    return first != cpu && contains(all, first);
  });
}

// How much a core can do, in units of its own kernel interface: capacity on ARM, top frequency elsewhere.
long core_strength(const std::string& folder, int cpu) {
  const std::string core = folder + "/cpu" + std::to_string(cpu);
  const long capacity = read_number(core + "/cpu_capacity", -1);
  return capacity >= 0 ? capacity : read_number(core + "/cpufreq/cpuinfo_max_freq", 0);
}

}  // namespace

std::size_t count_performance_cores(std::vector<int> cpus, const std::string& root) {
  // Intel's hybrids have this list; the efficiency cores of some run at three quarters of the others' clock.
  keep_listed(cpus, root + "/sys/devices/cpu_core/cpus");
  const std::string folder = root + "/sys/devices/system/cpu";
  keep_first_siblings(cpus, folder);
  std::vector<long> strengths;
  for (const int cpu : cpus) strengths.push_back(core_strength(folder, cpu));
  if (strengths.empty()) return 1;
  // Three quarters of the strongest: turbo bins differ by a few per cent, ARM's efficiency cores by half.
  const long strongest = *std::max_element(strengths.begin(), strengths.end());
  return static_cast<std::size_t>(
      std::count_if(strengths.begin(), strengths.end(), [&](long s) { return s * 4 >= strongest * 3; }));
}

// Counted by the first call, or by several at once, of which one counts for all: what a session has is as
// many each time. Not a static variable's initialisation: see cpu_features().
std::size_t performance_cores() {
  static std::atomic<std::size_t> known{0};
  std::size_t cores = known.load(std::memory_order_relaxed);
  if (cores > 0) return cores;
  const std::vector<int> cpus = allowed_cpus();
  const std::size_t n_cores =
      cpus.empty() ? std::max(1u, std::thread::hardware_concurrency()) : count_performance_cores(cpus);
  const std::size_t found = std::min(n_cores, cpu_quota());
  return known.compare_exchange_strong(cores, found, std::memory_order_relaxed) ? found : cores;
}

}  // namespace runnel
