// What one core can do at best, to hold the other kernels against: reading memory in order, and multiply-adds
// that wait for nothing.
#pragma once
#include "simd/hide.h"

namespace runnel::simd {
namespace {

// Each word of a cache line has a sum of its own, so that nothing but the reads takes time.
template <size_t n_streams>
inline std::uint64_t read_streams(const std::uint64_t* p, size_t n, size_t ahead) noexcept {
  constexpr size_t line = 8;  // words
  std::uint64_t sums[n_streams][line] = {};
  const size_t part = n / (n_streams * line) * line;
  for (size_t i = 0; i < part; i += line) {
    for (size_t s = 0; s < n_streams; ++s) {
      const std::uint64_t* words = p + s * part + i;
      if (ahead > 0) prefetch(words, ahead / sizeof *words);
      for (size_t j = 0; j < line; ++j) sums[s][j] ^= words[j];
    }
  }
  std::uint64_t all = 0;
  for (size_t i = n_streams * part; i < n; ++i) all ^= p[i];
  for (const auto& stream : sums) {
    for (const std::uint64_t sum : stream) all ^= sum;
  }
  return all;
}

std::uint64_t read_words(const std::uint64_t* p, size_t n, size_t n_streams, size_t ahead) noexcept {
  return n_streams == 1 ? read_streams<1>(p, n, ahead) : read_streams<4>(p, n, ahead);
}

std::uint64_t peak_f32(size_t n) noexcept {
  auto one = F32(1.0f).data;
  hide(one);
  decltype(one) sums[n_peak_sums];
  RUNNEL_UNROLL
  for (auto& sum : sums) {
    sum = F32(0.0f).data;
    hide(sum);  // or they would all be the same, and one
  }
  for (size_t i = 0; i < n; ++i) {
    RUNNEL_UNROLL
    for (auto& sum : sums) sum = fmadd(one, one, sum).data;
  }
  std::uint64_t total = 0;
  RUNNEL_UNROLL
  for (const auto& sum : sums) {
    float all[lanes];
    store(all, sum);
    for (const float count : all) total += static_cast<std::uint64_t>(count);
  }
  return total;
}

}  // namespace
}  // namespace runnel::simd
