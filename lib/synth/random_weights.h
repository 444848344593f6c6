// Random numbers that depend on nothing but seed, tensor and place, so that any number of threads can make
// any part of a tensor and the whole is always the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runnel {

// SplitMix64 (Steele, Lea and Flood 2014) as a function of its counter.
constexpr std::uint64_t splitmix64(std::uint64_t counter) {
  std::uint64_t z = counter + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

// Elements of one tensor, uniform in [mean - spread, mean + spread].
class RandomTensor {
 public:
  RandomTensor(std::uint64_t seed, std::string_view name, float mean, float spread);

  // out[i] is element first + i; first even.
  void fill(float* out, std::uint64_t first, std::size_t n) const;

 private:
  std::uint64_t key_;
  float mean_, spread_;
};

}  // namespace runnel
