#include "lib/system/machine.h"

#include "lib/system/performance_cores.h"
#include "simd/kernels.h"

namespace runnel {

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
