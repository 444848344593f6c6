// Writes a model as a plain GGUF file of another type.
#pragma once
#include <string>

#include "lib/io/gguf.h"
#include "lib/quantize/quantize.h"
#include "lib/result.h"
#include "quant/tensor_type.h"
#include "simd/kernels.h"

namespace runnel {

// type: f32, f16 or q8_0. Matrices take it, under the rules of llama.cpp's tool: vectors, positions and
// routers do not (vectors become f32), and a matrix whose rows are no multiple of 32 becomes f16 in a Q8_0
// file.
Result<void> convert(const GgufFile& file, quant::TensorType type, const std::string& out,
                     const Quantization& how, const simd::Kernels& kernels, std::size_t n_threads);

}  // namespace runnel
