// How int8 keys and values are cached, and scores of such keys as floats.
#pragma once
#include "simd/attention_tiles.h"
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// Four numbers that are summed over together lie side by side. Keys in blocks: [ceil(dim / 4), block_keys,
// 4]; values: [ceil(n_k / 4), dim, 4].
struct CachedI8 {
  using Element = std::int8_t;
  static constexpr size_t together = dot_bytes;

  static F32 keys(const std::int8_t* block, size_t d, size_t first) noexcept {
    return one_of(load_i32(block + (d / together * block_keys + first) * together), d);
  }
  static F32 value(const std::int8_t* v, size_t dim, size_t j, size_t d) noexcept {
    return one_of(load_i32(v + (j / together * dim + d) * together), j);
  }
  static F32 value_n(const std::int8_t* v, size_t dim, size_t j, size_t d, size_t n) noexcept {
    std::int32_t fours[lanes] = {};
    __builtin_memcpy(fours, v + (j / together * dim + d) * together, n * sizeof *fours);
    return one_of(load_i32(fours), j);
  }

 private:
  static F32 one_of(I32 fours, size_t i) noexcept {
    return to_float(byte_of(fours, static_cast<unsigned>(i % together)));
  }
};

inline void scores_of_i8(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,
                         const std::int8_t* k, const float* k_scales, size_t n_blocks, size_t dim) noexcept {
  scores<CachedI8>(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
  for (size_t i = 0; i < n_q; ++i) {
    float* const row = s + i * s_stride;
    for (size_t j = 0; j < n_blocks * block_keys; j += lanes)
      store(row + j, load(row + j) * load(k_scales + j));
  }
}

}  // namespace
}  // namespace runnel::simd
