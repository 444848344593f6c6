// A model file with random weights in the shape of a published model: a plain GGUF, with a tokenizer that
// knows bytes only, which any program for such files can load.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/model.h"
#include "lib/result.h"
#include "lib/settings.h"
#include "lib/synth/shapes.h"
#include "quant/tensor_type.h"

namespace runnel {

struct Synthesis {
  SynthShape shape;
  // Of matrices; vectors are f32, as is usual. Rows that are not whole blocks of the type are f16, as other
  // tools do it.
  const quant::TypeInfo* type;
  std::uint64_t seed;
  // Called with the share of the work done, 0 to 1; false stops it (RUNNEL_STOPPED). May be empty.
  std::function<bool(double)> on_progress;
};

// By their names; an error lists those that exist. Types: "f32", "f16", "bf16", "q8_0".
Result<Synthesis> find_synthesis(const std::string& shape, const std::string& type, std::uint64_t seed);

// The bytes depend on shape, type and seed alone. Of `settings` the number of threads counts.
Result<void> write_synthetic(const Synthesis& synthesis, const std::string& path, const Settings& settings);

// The same in memory, opened; the model owns the bytes.
Result<std::shared_ptr<const Model>> make_synthetic(const Synthesis& synthesis, const Settings& settings);

}  // namespace runnel
