#include "lib/synth/random_weights.h"

#include "lib/splitmix64.h"

namespace runnel {
namespace {

// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * UINT64_C(0x100000001b3);
  return h;
}

// In [-1, 1): exact, as 24 bits fit a float.
float uniform(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits) >> 8) * 0x1p-23f;
}

}  // namespace

RandomTensor::RandomTensor(std::uint64_t seed, std::string_view name, float mean, float spread)
    : key_(splitmix64(splitmix64(seed) ^ hash(name))), mean_(mean), spread_(spread) {}

void RandomTensor::fill(float* out, std::uint64_t first, std::size_t n) const {
  // Counters step by SplitMix64's own odd constant, which its first line adds once more.
  const auto pair = [this](std::uint64_t i) { return splitmix64(key_ + i * splitmix64_step); };
  const auto number = [this](std::uint64_t bits) {
    return mean_ + spread_ * uniform(static_cast<std::uint32_t>(bits));
  };
  for (std::size_t i = 0; i + 2 <= n; i += 2) {
    const std::uint64_t bits = pair((first + i) / 2);
    out[i] = number(bits);
    out[i + 1] = number(bits >> 32);
  }
  if (n % 2 != 0) out[n - 1] = number(pair((first + n - 1) / 2));
}

}  // namespace runnel
