// Waiting for another thread, mostly for a microsecond.
#pragma once
#include <thread>

namespace runnel {

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

constexpr int turns_before_yield = 1000;  // 5 to 50 microseconds, as processors' pauses go

// The body of a loop that waits; turn: how often it has been called there. After a while it yields the core,
// in case the other thread has none.
inline void spin(int turn) noexcept {
  if (turn < turns_before_yield)
    pause();
  else
    std::this_thread::yield();
}

}  // namespace runnel
