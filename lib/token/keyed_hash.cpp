#include "lib/token/keyed_hash.h"

#include <atomic>
#include <chrono>

namespace runnel {
namespace {

// A bijection in which every bit of the result depends on every bit of x (the finalizer of SplitMix64).
std::uint64_t scramble(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

std::uint64_t address_of(const void* object) noexcept { return reinterpret_cast<std::uintptr_t>(object); }

}  // namespace

// What differs from run to run: where the system put the stack and the library, and the time to the
// nanosecond. The count tells apart tables of one moment.
KeyedHash::KeyedHash() {
  static std::atomic<std::uint64_t> count{0};
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  const auto today = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::uint64_t state = count.fetch_add(0x9E3779B97F4A7C15, std::memory_order_relaxed);
  for (const std::uint64_t word : {address_of(this), address_of(&state), address_of(&count), now, today}) {
    state = scramble(state ^ word);
  }
  seed_ = scramble(state + 1);
  multiplier_ = scramble(state + 2) | 1;
}

}  // namespace runnel
