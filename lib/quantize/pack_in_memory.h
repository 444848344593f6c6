// A model packed to int8 in memory, for the setting "int8": what `runnel quantize` writes, without a file.
#pragma once
#include <functional>
#include <memory>

#include "lib/model.h"
#include "lib/result.h"
#include "lib/settings.h"

namespace runnel {

// model: with weights, none of them packed; not needed any more afterwards. The result keeps its name and
// owns its bytes. Of `settings` those of threads and kernels count. on_progress gets the share done, 0 to 1;
// false stops (RUNNEL_STOPPED); may be empty.
Result<std::shared_ptr<const Model>> pack_in_memory(const Model& model, const Settings& settings,
                                                    std::function<bool(double)> on_progress);

}  // namespace runnel
