// Writes a model as a plain GGUF file of another type.
#pragma once
#include <string>

#include "lib/io/gguf.h"
#include "lib/quantize/quantize.h"
#include "lib/result.h"
#include "quant/tensor_type.h"
#include "simd/kernels.h"

namespace runnel {

// file: of a model that runnel runs. type: f32, f16 or q8_0. In a file of f32 all weights take it, else the
// matrices that do with llama.cpp's tool (tensor_allows_quantization() of its src/llama-quant.cpp): learned
// positions and routers stay as they are. Vectors become f32. A matrix whose rows are no multiple of 32,
// which that tool refuses, becomes f16 in a Q8_0 file.
Result<void> convert(const GgufFile& file, quant::TensorType type, const std::string& out,
                     const Quantization& how, const simd::Kernels& kernels, std::size_t n_threads);

}  // namespace runnel
