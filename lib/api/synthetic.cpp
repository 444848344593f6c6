// The C surface: models of random weights.
#include "lib/api/call.h"
#include "lib/quantize/pack_in_memory.h"
#include "lib/synth/synthetic_file.h"

using namespace runnel;

namespace {

Result<Synthesis> synthesis_of(const char* shape, const char* type, uint64_t seed,
                               runnel_progress_fn on_progress, void* user) {
  RUNNEL_REQUIRE(shape);
  RUNNEL_REQUIRE(type);
  RUNNEL_ASSIGN(Synthesis synthesis, find_synthesis(shape, type, seed));
  synthesis.on_progress = watcher(on_progress, user);
  return synthesis;
}

}  // namespace

const char* runnel_shape_name(size_t i) { return i < n_synth_shapes() ? synth_shape(i).name : nullptr; }

runnel_status runnel_model_synthetic(const char* shape, const char* type, uint64_t seed,
                                     const runnel_config* config, runnel_progress_fn on_progress, void* user,
                                     runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    RUNNEL_ASSIGN(const auto synthesis, synthesis_of(shape, type, seed, on_progress, user));
    const Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto made, make_synthetic(synthesis, settings));
    RUNNEL_ASSIGN(auto model, packed_if_asked(std::move(made), settings, watcher(on_progress, user)));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

runnel_status runnel_synthesize(const char* shape, const char* type, uint64_t seed, const char* path,
                                const runnel_config* config, runnel_progress_fn on_progress, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(path);
    RUNNEL_ASSIGN(const auto synthesis, synthesis_of(shape, type, seed, on_progress, user));
    return write_synthetic(synthesis, path, settings_of(config));
  });
}
