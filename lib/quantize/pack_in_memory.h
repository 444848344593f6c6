// A model packed to int8 in memory, for the setting "int8": what `runnel quantize` writes, without a file.
#pragma once
#include <functional>
#include <memory>

#include "lib/model.h"
#include "lib/result.h"
#include "lib/settings.h"

namespace runnel {

// The model as the settings want it run: packed where they ask for int8 and it has weights none of which are
// packed, else itself. What is packed keeps the model's name and owns its bytes. on_progress gets the share
// done, 0 to 1; false stops (RUNNEL_STOPPED); may be empty.
Result<std::shared_ptr<const Model>> packed_if_asked(std::shared_ptr<const Model> model,
                                                     const Settings& settings,
                                                     std::function<bool(double)> on_progress);

}  // namespace runnel
