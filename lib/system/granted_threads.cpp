#include "lib/system/granted_threads.h"

#include <atomic>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#endif

#include "lib/system/host_signals.h"

namespace runnel {
namespace {

#if defined(__linux__)
long current_thread_id() noexcept { return syscall(SYS_gettid); }

// Waits until the system has no thread of that number, 100 ms at most: a new thread of the host's may have
// it. One that has been joined is on its way out, and is counted until it is gone. Source: Linux,
// kernel/exit.c, release_task(): the user's and the control group's counts, then the number.
void wait_until_gone(long id) noexcept {
  const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (syscall(SYS_tgkill, getpid(), id, 0) == 0 && std::chrono::steady_clock::now() < last)
    std::this_thread::yield();
}
#else
long current_thread_id() noexcept { return 0; }

void wait_until_gone(long) noexcept {}
#endif

}  // namespace

std::size_t granted_threads(std::size_t n) noexcept {
  std::vector<std::thread> threads;
  std::vector<long> ids;
  std::atomic<bool> end{false};
  const HostSignalsBlocked blocked;
  try {
    threads.reserve(n);
    ids.resize(n);
    while (threads.size() < n)
      threads.emplace_back([&end, &id = ids[threads.size()]] {
        id = current_thread_id();
        end.wait(false);
      });
  } catch (...) {  // std::system_error: no more threads; std::bad_alloc
  }
  end.store(true);
  end.notify_all();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < threads.size(); ++i) wait_until_gone(ids[i]);
  return threads.size();
}

}  // namespace runnel
