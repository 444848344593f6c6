// What the settings ask of the machine.
#pragma once
#include <cstddef>

#include "lib/result.h"
#include "lib/settings.h"
#include "simd/kernels.h"

namespace runnel {

// A row of kernels that is not here is RUNNEL_UNSUPPORTED.
Result<simd::Kernels> kernels_of(const Settings& settings);
// 0 asks for a thread on each performance core.
std::size_t thread_count(const Settings& settings);

}  // namespace runnel
