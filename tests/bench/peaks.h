// What this machine can do at best on one core, to hold the kernels against.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace runnel::bench {

// Reads n_bytes (a multiple of 256) in order and returns their exclusive or.
inline std::uint64_t read_all(const void* memory, std::size_t n_bytes) {
  const auto* p = static_cast<const std::uint64_t*>(memory);
  std::uint64_t lanes[32] = {};
  for (std::size_t i = 0; i < n_bytes / sizeof *p; i += 32) {
    for (std::size_t j = 0; j < 32; ++j) lanes[j] ^= p[i + j];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t lane : lanes) all ^= lane;
  return all;
}

// n rounds of independent fused multiply-adds on the vectors of a kernel row; returns the floating-point
// operations.
using FmaLoop = std::size_t (*)(std::size_t n);

#if defined(__x86_64__)

__attribute__((target("avx512f"))) inline std::size_t fma_avx512(std::size_t n) {
  __m512 sums[16];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 factor = _mm512_set1_ps(0.999f);
  for (std::size_t i = 0; i < n; ++i) {
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
      __asm__ volatile("" : "+v"(sum));
    }
  }
  return n * 16 * 16 * 2;
}
__attribute__((target("avx2,fma"))) inline std::size_t fma_avx2(std::size_t n) {
  __m256 sums[12];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 factor = _mm256_set1_ps(0.999f);
  for (std::size_t i = 0; i < n; ++i) {
    for (auto& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
      __asm__ volatile("" : "+x"(sum));
    }
  }
  return n * 12 * 8 * 2;
}

#elif defined(__aarch64__)

inline std::size_t fma_neon(std::size_t n) {
  float32x4_t sums[16];
  for (auto& sum : sums) sum = vdupq_n_f32(1.0f);
  const float32x4_t factor = vdupq_n_f32(0.999f);
  for (std::size_t i = 0; i < n; ++i) {
    for (auto& sum : sums) {
      sum = vfmaq_f32(factor, sum, factor);
      __asm__ volatile("" : "+w"(sum));
    }
  }
  return n * 16 * 4 * 2;
}

#endif

struct NamedFmaLoop {
  const char* isa;
  FmaLoop loop;
};
inline constexpr NamedFmaLoop fma_loops[] = {
#if defined(__x86_64__)
    {"avx512", fma_avx512},
    {"avx2", fma_avx2},
#elif defined(__aarch64__)
    {"neon", fma_neon},
#endif
};

}  // namespace runnel::bench
