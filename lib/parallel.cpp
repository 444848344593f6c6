#include "lib/parallel.h"

#include <csignal>
#include <thread>
#if defined(_OPENMP)
#include <omp.h>
#endif

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
// On the threads that OpenMP starts, and keeps. All signals but those of faults are for the host's threads:
// one of them may hold a signal back while it is amid what the handler must not find halfway, and the signal
// would come here instead.
void leave_signals_to_host() noexcept {
  thread_local bool left = false;
  if (left) return;
  left = true;
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
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

Range Thread::split(std::size_t n, std::size_t multiple) const noexcept {
  const std::size_t n_parts = (n + multiple - 1) / multiple;
  const auto cut = [&](std::size_t i) {
    const std::size_t at = n_parts * i / count_ * multiple;
    return at < n ? at : n;
  };
  return {cut(index_), cut(index_ + 1)};
}

void Team::run_region(void (*work)(void* context, Thread& thread), void* context) noexcept {
#if defined(_OPENMP)
#pragma omp parallel num_threads(static_cast <int>(n_threads_))
  {
    // A team of one is no parallel region to OpenMP: what is called from it (OpenBLAS) would start its own.
    omp_set_num_threads(1);
    if (omp_get_thread_num() != 0) leave_signals_to_host();
    Thread thread(barrier_, static_cast<std::size_t>(omp_get_thread_num()),
                  static_cast<std::size_t>(omp_get_num_threads()));
    work(context, thread);
  }
#else
  Thread thread(barrier_, 0, 1);
  work(context, thread);
#endif
}

}  // namespace runnel
