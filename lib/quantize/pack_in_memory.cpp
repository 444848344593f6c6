#include "lib/quantize/pack_in_memory.h"

#include <utility>

#include "lib/io/memory_output.h"
#include "lib/quantize/quantize.h"

namespace runnel {

Result<std::shared_ptr<const Model>> pack_in_memory(const Model& model, const Settings& settings,
                                                    std::function<bool(double)> on_progress) {
  struct Owner {
    std::shared_ptr<AnonymousMemory> bytes = std::make_shared<AnonymousMemory>();
    std::shared_ptr<const Model> model;  // goes first
  };
  const auto owner = std::make_shared<Owner>();
  const std::string& name = model.file().name();
  RUNNEL_TRY(quantize(model, GgufWriter(std::make_unique<MemoryOutput>(owner->bytes, name)),
                      {"i8", {}, std::move(on_progress)}, settings));
  RUNNEL_ASSIGN(owner->model, Model::from_memory(owner->bytes->bytes(), settings, name));
  return std::shared_ptr<const Model>(owner, owner->model.get());
}

}  // namespace runnel
