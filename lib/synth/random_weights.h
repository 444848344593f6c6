// Random numbers that depend on nothing but seed, tensor and place, so that any number of threads can make
// any part of a tensor and the whole is always the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runnel {

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
