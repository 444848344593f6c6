// What the machine has: kernels, and cores worth using.
#pragma once
#include <cstddef>

#include "lib/result.h"
#include "lib/settings.h"
#include "simd/kernels.h"

namespace runnel {

// Performance cores this process may run on, at least 1, and no more than its CPU quota. Cores of less
// capacity (big.LITTLE, Intel hybrids) and second hardware threads of a core are not counted: what a team
// shares (parallel.h) leaves them little to do, and the rest waits for them at every barrier.
std::size_t performance_cores();

// Kernels and threads that the settings ask for. A row of kernels that is not here is RUNNEL_UNSUPPORTED.
Result<simd::Kernels> kernels_of(const Settings& settings);
std::size_t thread_count(const Settings& settings);

}  // namespace runnel
