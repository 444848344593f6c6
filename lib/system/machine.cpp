#include "lib/system/machine.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sched.h>
#endif

#include "lib/system/cpu_quota.h"
#include "lib/system/system_number.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

#if defined(__linux__)

long read_cpu_number(int cpu, const char* name, long absent) {
  return read_number("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name, absent);
}

// How much a core can do, in units of its own kernel interface: capacity on ARM, top frequency elsewhere.
long core_strength(int cpu) {
  const long capacity = read_cpu_number(cpu, "cpu_capacity", -1);
  return capacity >= 0 ? capacity : read_cpu_number(cpu, "cpufreq/cpuinfo_max_freq", 0);
}

std::size_t count_performance_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
  std::vector<long> strengths;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    // The list starts with the core's first hardware thread: the others are not cores.
    const long first_sibling = read_cpu_number(cpu, "topology/thread_siblings_list", cpu);
    if (first_sibling != cpu && first_sibling < CPU_SETSIZE && first_sibling >= 0 &&
        CPU_ISSET(static_cast<int>(first_sibling), &allowed))
      continue;
    strengths.push_back(core_strength(cpu));
  }
  if (strengths.empty()) return 1;
  // Three quarters of the strongest: turbo bins differ by a few per cent, efficiency cores by half.
  const long strongest = *std::max_element(strengths.begin(), strengths.end());
  return static_cast<std::size_t>(
      std::count_if(strengths.begin(), strengths.end(), [&](long s) { return s * 4 >= strongest * 3; }));
}

#else

std::size_t count_performance_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

#endif

}  // namespace

// Counted by the first call, or by several at once, of which one counts for all: what a session has is as
// many each time. Not a static variable's initialisation: see cpu_features().
std::size_t performance_cores() {
  static std::atomic<std::size_t> known{0};
  std::size_t cores = known.load(std::memory_order_relaxed);
  if (cores > 0) return cores;
  const std::size_t found = std::min(count_performance_cores(), cpu_quota());
  return known.compare_exchange_strong(cores, found, std::memory_order_relaxed) ? found : cores;
}

Result<simd::Kernels> kernels_of(const Settings& settings) {
  const simd::IsaRow* row = nullptr;
  const simd::Kernels kernels =
      simd::select(settings.isa.empty() ? nullptr : settings.isa.c_str(), simd::cpu_features(), &row);
  if (!row)
    return error(RUNNEL_UNSUPPORTED, "isa: \"%.40s\" is not built in, or this processor lacks it",
                 settings.isa.c_str());
  return kernels;
}

std::size_t thread_count(const Settings& settings) {
  return settings.threads > 0 ? static_cast<std::size_t>(settings.threads) : performance_cores();
}

}  // namespace runnel
