// Attention over keys and values that are cached as floats. What it is: simd/kernels.h.
#pragma once
#include "simd/attention_tiles.h"

namespace runnel::simd {
namespace {

void scores_f32(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<CachedFloats<AsF32>>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}
void scores_f16(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,
                size_t n_blocks, size_t dim) noexcept {
  scores<CachedFloats<AsF16>>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
}

void mix_f32(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,
             size_t n_k, size_t dim) noexcept {
  mix<CachedFloats<AsF32>>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_f16(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v, size_t n_k,
             size_t dim) noexcept {
  mix<CachedFloats<AsF16>>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

}  // namespace
}  // namespace runnel::simd
