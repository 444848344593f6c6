// Tells models apart: two files with the same hash are the same model as far as a saved session goes.
#pragma once
#include <cstdint>

#include "lib/io/gguf.h"

namespace runnel {

// Of all metadata, all tensors' names, types and shapes, and samples of each tensor's data: reads little of a
// large file. Where the file lies and what it is called does not count.
std::uint64_t model_hash(const GgufFile& file);

}  // namespace runnel
