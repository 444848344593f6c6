// The kernels that are the same code for vectors of every size: all but the products of int8 and int16
// weights. They are compiled for the instruction set of the including file, which puts its own in the place
// of some.
#pragma once
#include "simd/float/attention.h"
#include "simd/float/elementwise.h"
#include "simd/float/matmul.h"
#include "simd/float/matvec.h"
#include "simd/float/norm.h"
#include "simd/float/pack.h"
#include "simd/float/softmax.h"
#include "simd/int8/attention_floats.h"
#include "simd/int8/pack.h"
#include "simd/int8/peak.h"
#include "simd/int8/quantize.h"
#include "simd/int8/quantize_vector.h"
#include "simd/peaks.h"

namespace runnel::simd {
namespace {

constexpr Kernels vector_kernels{
    .matmul_few_f32 = matmul_few<AsF32>,
    .matmul_few_f16 = matmul_few<AsF16>,
    .matmul_few_bf16 = matmul_few<AsBf16>,
    .most_few = most_few,
    .f16_to_f32 = f16_to_f32,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .pack_panel_f32 = pack_panel<AsF32>,
    .pack_panel_f16 = pack_panel<AsF16>,
    .pack_panel_bf16 = pack_panel<AsBf16>,
    .matmul_panels = matmul_panels,
    .read_words = read_words,
    .peak_f32 = peak_f32,
    .peak_i8 = peak_i8,
    .pack_q8_0 = pack_q8_0,
    .quantize_i8 = quantize_i8,
    .scores_f32 = scores_f32,
    .scores_f16 = scores_f16,
    .scores_i8 = scores_i8,
    .mix_f32 = mix_f32,
    .mix_f16 = mix_f16,
    .mix_i8 = mix_i8,
    .unfetched_i8 = unfetched_i8,
    .quantize_vector = quantize_vector,
    .softmax_step = softmax_step,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .gelu = gelu,
    .add = add,
    .mul = mul,
    .add_scaled = add_scaled,
    .scale = scale,
    .soft_cap = soft_cap,
};

}  // namespace
}  // namespace runnel::simd
