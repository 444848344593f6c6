// Writes a model as a packed int8 file: balances, rounds, packs.
#pragma once
#include "lib/io/gguf_writer.h"
#include "lib/model.h"
#include "lib/quantize/quantize.h"
#include "lib/result.h"
#include "simd/kernels.h"

namespace runnel {

Result<void> pack_model(const Model& model, GgufWriter writer, const Quantization& how,
                        const simd::Kernels& kernels, std::size_t n_threads);

}  // namespace runnel
