#include "quant/tensor_type.h"

#include "quant/float_codecs.h"
#include "quant/q8_0.h"

namespace runnel::quant {
namespace {

constexpr TypeInfo types[] = {
    {TensorType::f32, "F32", 1, 4, decode_f32, encode_f32},
    {TensorType::f16, "F16", 1, 2, decode_f16, encode_f16},
    {TensorType::bf16, "BF16", 1, 2, decode_bf16, encode_bf16},
    {TensorType::q8_0, "Q8_0", BlockQ8_0::size, sizeof(BlockQ8_0), decode_q8_0, encode_q8_0},
    {TensorType::i8, "I8", 1, 1},
    {TensorType::i32, "I32", 1, 4},
    // Not read. Sizes as in ggml (ggml-common.h).
    {TensorType{2}, "Q4_0", 32, 18},
    {TensorType{3}, "Q4_1", 32, 20},
    {TensorType{6}, "Q5_0", 32, 22},
    {TensorType{7}, "Q5_1", 32, 24},
    {TensorType{9}, "Q8_1", 32, 36},
    {TensorType{10}, "Q2_K", 256, 84},
    {TensorType{11}, "Q3_K", 256, 110},
    {TensorType{12}, "Q4_K", 256, 144},
    {TensorType{13}, "Q5_K", 256, 176},
    {TensorType{14}, "Q6_K", 256, 210},
    {TensorType{15}, "Q8_K", 256, 292},
    {TensorType{16}, "IQ2_XXS", 256, 66},
    {TensorType{17}, "IQ2_XS", 256, 74},
    {TensorType{18}, "IQ3_XXS", 256, 98},
    {TensorType{19}, "IQ1_S", 256, 50},
    {TensorType{20}, "IQ4_NL", 32, 18},
    {TensorType{21}, "IQ3_S", 256, 110},
    {TensorType{22}, "IQ2_S", 256, 82},
    {TensorType{23}, "IQ4_XS", 256, 136},
    {TensorType{25}, "I16", 1, 2},
    {TensorType{27}, "I64", 1, 8},
    {TensorType{28}, "F64", 1, 8},
    {TensorType{29}, "IQ1_M", 256, 56},
    {TensorType{31}, "Q4_0_4_4", 32, 18},  // these three and 36 to 38 have been withdrawn; files are about
    {TensorType{32}, "Q4_0_4_8", 32, 18},
    {TensorType{33}, "Q4_0_8_8", 32, 18},
    {TensorType{34}, "TQ1_0", 256, 54},
    {TensorType{35}, "TQ2_0", 256, 66},
    {TensorType{36}, "IQ4_NL_4_4", 32, 18},
    {TensorType{37}, "IQ4_NL_4_8", 32, 18},
    {TensorType{38}, "IQ4_NL_8_8", 32, 18},
    {TensorType{39}, "MXFP4", 32, 17},
    {TensorType{40}, "NVFP4", 64, 36},
    {TensorType{41}, "Q1_0", 128, 18},
};

}  // namespace

const TypeInfo* type_info(std::uint32_t id) noexcept {
  for (const TypeInfo& info : types) {
    if (static_cast<std::uint32_t>(info.type) == id) return &info;
  }
  return nullptr;
}

}  // namespace runnel::quant
