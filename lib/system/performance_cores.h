// Cores worth a thread each.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace runnel {

// Performance cores this process may run on, at least 1, and no more than its CPU quota. Cores of less
// capacity (big.LITTLE, Intel hybrids) and second hardware threads of a core are not counted: what a team
// shares (parallel.h) leaves them little to do, and the rest waits for them at every barrier.
std::size_t performance_cores();

// Those among some CPUs, at least 1, by what Linux tells of them. `root`: where /sys is looked for.
std::size_t count_performance_cores(std::vector<int> cpus, const std::string& root = "");

}  // namespace runnel
