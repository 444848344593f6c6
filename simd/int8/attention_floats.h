// Attention over int8 keys and values as floats: on ARM without dot products of bytes, and what others take
// from it.
#pragma once
#include "simd/int8/cached.h"

namespace runnel::simd {
namespace {

void scores_i8(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const std::int8_t* k,
               const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  scores_of_i8(s, s_stride, q, q_stride, n_q, k, k_scales, n_blocks, dim);
}

void mix_i8(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const std::int8_t* v,
            size_t n_k, size_t dim) noexcept {
  mix<CachedI8>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

size_t unfetched_i8(size_t /*n*/, size_t /*n_q*/) noexcept { return 0; }

}  // namespace
}  // namespace runnel::simd
