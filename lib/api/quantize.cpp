// The C surface: models packed into files.
#include "lib/quantize/quantize.h"

#include "lib/api/call.h"

using namespace runnel;

runnel_status runnel_quantize(const char* in_path, const char* out_path, const char* type,
                              const runnel_config* config, const char* calibration, size_t n_bytes,
                              runnel_progress_fn on_progress, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(in_path);
    RUNNEL_REQUIRE(out_path);
    RUNNEL_REQUIRE(type);
    RUNNEL_REQUIRE_ALL(calibration, n_bytes);
    Quantization how{type, view(calibration, n_bytes), {}};
    how.on_progress = watcher(on_progress, user);
    return quantize(in_path, out_path, how, settings_of(config));
  });
}
