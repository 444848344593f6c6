// Writes a tensor's bytes into another file as they are.
#pragma once
#include "lib/io/gguf.h"
#include "lib/io/gguf_writer.h"
#include "lib/result.h"
#include "lib/work.h"

namespace runnel {

// In pieces, between which it can be stopped. A unit of work is a number.
Result<void> copy_tensor(const GgufFile& file, const GgufTensor& tensor, GgufWriter& writer, Work& work);

}  // namespace runnel
