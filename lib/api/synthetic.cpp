// The C surface: models of random weights.
#include "lib/api/call.h"
#include "lib/quantize/pack_in_memory.h"
#include "lib/synth/synthetic_file.h"

using namespace runnel;

namespace {

Result<Synthesis> synthesis_of(const char* shape, const char* type, uint64_t seed, Watcher watcher) {
  RUNNEL_REQUIRE(shape);
  RUNNEL_REQUIRE(type);
  RUNNEL_ASSIGN(Synthesis synthesis, find_synthesis(shape, type, seed));
  synthesis.on_progress = std::move(watcher);
  return synthesis;
}

// Of a piece of work that is one of two.
Watcher half(const Watcher& whole, double begin) {
  if (!whole) return {};
  return [=](double fraction) { return whole(begin + fraction / 2); };
}

}  // namespace

const char* runnel_shape_name(size_t i) { return i < n_synth_shapes() ? synth_shape(i).name : nullptr; }

runnel_status runnel_model_synthetic(const char* shape, const char* type, uint64_t seed,
                                     const runnel_config* config, runnel_progress_fn on_progress, void* user,
                                     runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    const Settings settings = settings_of(config);
    const Watcher whole = watcher(on_progress, user);
    RUNNEL_ASSIGN(const auto synthesis,
                  synthesis_of(shape, type, seed, settings.int8 ? half(whole, 0) : whole));
    RUNNEL_ASSIGN(auto made, make_synthetic(synthesis, settings));
    RUNNEL_ASSIGN(auto model, packed_if_asked(std::move(made), settings, half(whole, 0.5)));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

runnel_status runnel_synthesize(const char* shape, const char* type, uint64_t seed, const char* path,
                                const runnel_config* config, runnel_progress_fn on_progress, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(path);
    RUNNEL_ASSIGN(const auto synthesis, synthesis_of(shape, type, seed, watcher(on_progress, user)));
    return write_synthetic(synthesis, path, settings_of(config));
  });
}
