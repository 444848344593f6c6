#include "quant/tensor_type.h"

#include <iterator>

#include "quant/float_codecs.h"
#include "quant/q8_0.h"

namespace runnel::quant {
namespace {

constexpr TypeInfo types[] = {
    {TensorType::f32, "F32", 1, 4, decode_f32, encode_f32},
    {TensorType::f16, "F16", 1, 2, decode_f16, encode_f16},
    {TensorType::bf16, "BF16", 1, 2, decode_bf16, encode_bf16},
    {TensorType::q8_0, "Q8_0", BlockQ8_0::size, sizeof(BlockQ8_0), decode_q8_0, encode_q8_0},
    {TensorType::i8, "I8", 1, 1, nullptr, nullptr},
    {TensorType::i32, "I32", 1, 4, nullptr, nullptr},
};

// By GGUF id; null where an id was never given or has been withdrawn.
constexpr const char* names[] = {
    "F32",   "F16",    "Q4_0",  "Q4_1",  nullptr, nullptr,   "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",   "I64",     "F64",    "IQ1_M",   "BF16",  nullptr,  nullptr,
    nullptr, "TQ1_0",  "TQ2_0", nullptr, nullptr, nullptr,   "MXFP4",  "NVFP4",   "Q1_0",
};

}  // namespace

const TypeInfo* type_info(std::uint32_t id) noexcept {
  for (const TypeInfo& info : types) {
    if (static_cast<std::uint32_t>(info.type) == id) return &info;
  }
  return nullptr;
}

const char* type_name(std::uint32_t id) noexcept { return id < std::size(names) ? names[id] : nullptr; }

}  // namespace runnel::quant
