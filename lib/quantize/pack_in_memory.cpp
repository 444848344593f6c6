#include "lib/quantize/pack_in_memory.h"

#include <utility>

#include "lib/model_in_memory.h"
#include "lib/quantize/pack_model.h"
#include "lib/system/machine.h"

namespace runnel {

Result<std::shared_ptr<const Model>> packed_if_asked(std::shared_ptr<const Model> model,
                                                     const Settings& settings,
                                                     std::function<bool(double)> on_progress) {
  if (!settings.int8 || !model->has_weights() || model->is_packed()) return model;
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  const Quantization how{"i8", {}, std::move(on_progress)};
  return model_in_memory(model->file().name(), model->source_path(), settings, [&](GgufWriter writer) {
    return pack_model(*model, std::move(writer), how, kernels, thread_count(settings));
  });
}

}  // namespace runnel
