// What the machine has: kernels, cores worth using, and how well OpenBLAS knows its processor.
#pragma once
#include <cstddef>
#include <string>

#include "lib/result.h"
#include "lib/settings.h"
#include "simd/kernels.h"

namespace runnel {

// Performance cores this process may run on, at least 1. Cores of less capacity (big.LITTLE, Intel hybrids)
// and second hardware threads of a core are not counted: one slow thread holds up the whole team at every
// barrier.
std::size_t performance_cores();

// Kernels and threads that the settings ask for. A row of kernels that is not here is RUNNEL_UNSUPPORTED.
Result<simd::Kernels> kernels_of(const Settings& settings);
std::size_t thread_count(const Settings& settings);

// OpenBLAS may be called by every thread of a team at once, single-threaded: its OpenMP build allows that.
bool blas_is_usable();
const char* blas_core();           // "Haswell"...; "" when built without it
const std::string& blas_advice();  // why it is a poor match or unused; "" when there is nothing to say

}  // namespace runnel
