#include "lib/system/parallel.h"

#include <algorithm>
#include <optional>
#include <thread>
#if defined(_OPENMP)
#include <omp.h>
#include <pthread.h>

#include <mutex>
#endif

#include "lib/system/core.h"
#include "lib/system/default_floats.h"
#include "lib/system/granted_threads.h"
#include "lib/system/host_signals.h"

namespace runnel {
namespace {

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#if defined(_OPENMP)
// The size of the calling thread's last region, for OpenMP keeps the threads of one region for the next, also
// where that was the host's. A process that is forked has none of them, and OpenMP would wait for them for
// ever.
struct Kept {
  std::size_t n = 1;
  bool is_lost = false;
};
thread_local Kept kept;

// One region at a time starts threads: another could take in between what was tried here. No mutex, for a
// fork() may leave it held in the child by a thread that is not there. (To take it before each fork, as
// usual, would wait for a region that waits for OpenMP, which holds its own locks then.)
class StartLock {
 public:
  void lock() noexcept {
    while (is_held_.exchange(true, std::memory_order_acquire)) is_held_.wait(true, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    is_held_.store(false, std::memory_order_release);
    is_held_.notify_one();
  }

 private:
  std::atomic<bool> is_held_{false};
};
StartLock starting;

// In the child of a fork(), from when the library is loaded on.
[[maybe_unused]] const int forks_are_watched = pthread_atfork(nullptr, nullptr, [] {
  starting.unlock();
  kept.is_lost = true;
});

#if defined(RUNNEL_BLAS)
// What is called from a team of one (OpenBLAS) would start threads of its own.
constexpr bool is_one_a_region = true;
#else
// OpenMP takes memory for a team of one each time, and ends the process where there is none.
constexpr bool is_one_a_region = false;
#endif

// Threads that a region of n can have. OpenMP's runtimes end the process where they are refused one, so what
// they would have to start is tried first: twice as many, since the host may start some at the same moment.
// Nothing is tried that OpenMP would not start: in a region of the host's, above OMP_THREAD_LIMIT.
std::size_t obtainable(std::size_t n) noexcept {
  if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;
  if (kept.is_lost) return 1;
  n = std::min(n, static_cast<std::size_t>(omp_get_thread_limit()));
  return n <= kept.n ? n : kept.n + granted_threads(2 * (n - kept.n)) / 2;
}

// A thread that was asleep may be woken on the core of the first one, the one that woke it, with another core
// idle: Linux does so in virtual machines, whose idle cores look to it as if the host had taken them away. It
// would wait there for the end of a slice of time, and the two then take turns, 4 to 8 ms in all. So the
// first thread waits for it here, where it soon yields, and the other moves before it says that it has come.
void start(Thread& thread, int first_core) noexcept {
  if (thread.index() > 0) leave_core(first_core, thread.count());
  thread.barrier();
}
#endif

}  // namespace

void Barrier::wait(std::size_t n_threads) noexcept {
  if (n_threads == 1) return;
  constexpr int spins_before_yield = 1000;  // 5 to 50 microseconds, as processors' pauses go
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_threads) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int spin = 0; generation_.load(std::memory_order_acquire) == generation; ++spin) {
    if (spin < spins_before_yield)
      pause();
    else
      std::this_thread::yield();
  }
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

void Team::run_alone(void (*work)(void* context, Thread& thread), void* context) noexcept {
  Thread thread(barrier_, piles_.data(), 0, 1);
  work(context, thread);
}

void Team::run_region(void (*work)(void* context, Thread& thread), void* context) noexcept {
  for (Pile& pile : piles_) pile.clear();
#if defined(_OPENMP)
  std::unique_lock<StartLock> lock(starting, std::defer_lock);
  if (size() > kept.n && !kept.is_lost) lock.lock();
  const int n_threads = static_cast<int>(obtainable(size()));
  if (n_threads == 1 && lock.owns_lock()) lock.unlock();
  if (n_threads == 1 && !is_one_a_region) return run_alone(work, context);
  const int first_core = current_core();
  std::optional<HostSignalsBlocked> blocked;  // of the threads that are started
  if (static_cast<std::size_t>(n_threads) > kept.n) blocked.emplace();
#pragma omp parallel num_threads(n_threads)
  {
    // A team of one is no parallel region to OpenMP: what is called from it (OpenBLAS) would start its own.
    omp_set_num_threads(1);
    Thread thread(barrier_, piles_.data(), static_cast<std::size_t>(omp_get_thread_num()),
                  static_cast<std::size_t>(omp_get_num_threads()));
    std::optional<HostSignalsBlocked> left_to_host;  // of one that OpenMP may have kept from the host's
    std::optional<DefaultFloats> floats;  // of the first thread the call has set them (lib/api/call.h)
    if (thread.index() == 0) {
      kept.n = thread.count();
      blocked.reset();  // all threads are there
      if (lock.owns_lock()) lock.unlock();
    } else {
      left_to_host.emplace();
      floats.emplace();
    }
    start(thread, first_core);
    work(context, thread);
  }
#else
  run_alone(work, context);
#endif
}

}  // namespace runnel
