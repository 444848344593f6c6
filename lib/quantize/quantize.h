// Writes a model with its weights in another type: runnel's packed int8 (lib/io/packed_file.h), or a
// plain GGUF file in Q8_0, F16 or F32. Goes through the file piece by piece; what it holds at a time does not
// grow with the model.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "lib/result.h"
#include "lib/settings.h"

namespace runnel {

struct Quantization {
  std::string type;  // "i8", "q8_0", "f16", "f32"
  // Text that shows what the model reads; i8 only; empty: from the weights alone.
  std::string_view calibration;
  // Called with the share of the work done, 0 to 1; false stops it (RUNNEL_STOPPED). May be empty.
  std::function<bool(double)> on_progress;
};

// in: a GGUF file that runnel runs (lib/model.h), with weights in F32, F16, BF16 or Q8_0. Of `settings` those
// of threads and kernels count. The file out appears when it is complete, and never replaces `in`.
Result<void> quantize(const std::string& in, const std::string& out, const Quantization& how,
                      const Settings& settings);

}  // namespace runnel
