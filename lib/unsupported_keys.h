// Metadata that asks for what runnel does not compute. A reader that passed over it would run another model
// than the file's.
#pragma once
#include <string>

#include "lib/io/gguf.h"
#include "lib/result.h"

namespace runnel {

// A file of something else than a model: an adapter (LoRA), an importance matrix.
Result<void> refuse_other_kinds(const GgufFile& file);

// One of several files among which a model was split.
Result<void> refuse_part(const GgufFile& file);

Result<void> refuse_unsupported_keys(const GgufFile& file, const std::string& architecture);

}  // namespace runnel
