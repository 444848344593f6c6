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

// One wait: turn() as long as what is waited for has not come.
class Spin {
 public:
  // After a while it yields the core, in case the other thread has none.
  void turn() noexcept {
    if (is_long()) return std::this_thread::yield();
    ++n_pauses_;
    pause();
  }
  bool is_long() const noexcept { return n_pauses_ == most_pauses; }

 private:
  static constexpr int most_pauses = 1000;  // 5 to 50 microseconds, as processors' pauses go
  int n_pauses_ = 0;
};

}  // namespace runnel
