// What one core can do at best, to hold the other kernels against: reading memory in order, and multiply-adds
// that wait for nothing.
#pragma once
#include "simd/hide.h"

namespace runnel::simd {
namespace {

// Several cache lines at a time, each word with a sum of its own, so that nothing but the reads takes time.
std::uint64_t read_words(const std::uint64_t* p, size_t n) noexcept {
  constexpr size_t step = 32;
  constexpr size_t ahead = 256;  // words: 2 KB
  std::uint64_t sums[step] = {};
  size_t i = 0;
  for (; i + step <= n; i += step) {
    for (size_t j = 0; j < step; j += 8) prefetch(p + i + j, ahead);
    for (size_t j = 0; j < step; ++j) sums[j] ^= p[i + j];
  }
  for (; i < n; ++i) sums[0] ^= p[i];
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
}

std::uint64_t peak_f32(size_t n) noexcept {
  auto one = F32(1.0f).data;
  hide(one);
  decltype(one) sums[n_peak_sums];
  for (auto& sum : sums) sum = F32(0.0f).data;
  for (size_t i = 0; i < n; ++i) {
    for (auto& sum : sums) {
      sum = fmadd(one, one, sum).data;
      hide(sum);
    }
  }
  std::uint64_t total = 0;
  for (const auto& sum : sums) {
    float all[lanes];
    store(all, sum);
    for (const float count : all) total += static_cast<std::uint64_t>(count);
  }
  return total;
}

}  // namespace
}  // namespace runnel::simd
