#include "lib/system/parallel.h"

#include <algorithm>

#include "lib/system/core.h"
#include "lib/system/spin.h"

namespace runnel {

void Barrier::wait(std::size_t n_threads) noexcept {
  if (n_threads == 1) return;
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (Spin spin; generation_.load(std::memory_order_acquire) == generation;) spin.turn();
}

// Relaxed: what the pieces read and write is ordered by barriers.
std::size_t Pile::take(std::uint32_t work, std::size_t n) noexcept {
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    const auto held = static_cast<std::uint32_t>(state >> 32);
    const std::size_t n_taken = held == work ? static_cast<std::uint32_t>(state) : 0;
    if (held > work || n_taken == n) return n;
    const std::uint64_t next = std::uint64_t{work} << 32 | (n_taken + 1);
    if (state_.compare_exchange_weak(state, next, std::memory_order_relaxed)) return n_taken;
  }
}

Range Thread::part(Range all, std::size_t multiple, std::size_t i, std::size_t n) noexcept {
  const std::size_t n_multiples = divided_up(all.size(), multiple);
  const auto cut = [&](std::size_t k) {
    return all.begin + std::min(n_multiples * k / n * multiple, all.size());
  };
  return {cut(i), cut(i + 1)};
}

void Team::resize(std::size_t n_threads) {
  std::vector<Pile> piles(n_threads);
  workers_.resize(n_threads - 1);
  piles_.swap(piles);
}

// A thread that was asleep may be woken on the core of the first one, the one that woke it, with another core
// idle: Linux does so in virtual machines, whose idle cores look to it as if the host had taken them away. It
// would wait there for the end of a slice of time, and the two then take turns, 4 to 8 ms in all. So the
// first thread waits for it at a barrier, where it soon yields, and the other moves before it says that it
// has come.
void Team::run_region(void (*work)(void* context, Thread& thread), void* context) noexcept {
  for (Pile& pile : piles_) pile.clear();
  const std::size_t n_threads = 1 + workers_.start();
  const int first_core = current_core();
  workers_.run([&](std::size_t index) {
    if (index > 0) leave_core(first_core, n_threads);
    Thread thread(barrier_, piles_.data(), index, n_threads);
    thread.barrier();
    work(context, thread);
  });
}

}  // namespace runnel
