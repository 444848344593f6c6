#include "lib/token/keyed_hash.h"

#include <atomic>
#include <chrono>

#include "lib/splitmix64.h"

namespace runnel {
namespace {

std::uint64_t address_of(const void* object) noexcept { return reinterpret_cast<std::uintptr_t>(object); }

}  // namespace

// What differs from run to run: where the system put the stack and the library, and the time to the
// nanosecond. The count tells apart tables of one moment.
KeyedHash::KeyedHash() {
  static std::atomic<std::uint64_t> count{0};
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  const auto today = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::uint64_t state = count.fetch_add(splitmix64_step, std::memory_order_relaxed);
  for (const std::uint64_t word : {address_of(this), address_of(&state), address_of(&count), now, today}) {
    state = splitmix64_mix(state ^ word);
  }
  seed_ = splitmix64_mix(state + 1);
  multiplier_ = splitmix64_mix(state + 2) | 1;
}

}  // namespace runnel
