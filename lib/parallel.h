// Threads that work through one token together: a parallel region, an even split of rows, a barrier.
// parallel.cpp is the only file that knows OpenMP; built without it a team has one thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/range.h"

namespace runnel {

// Meeting point of a fixed number of threads. Spins, since the wait is mostly a microsecond, then yields its
// core in case another thread of the team has none.
class Barrier {
 public:
  void wait(std::size_t n_threads) noexcept;

 private:
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
};

// One thread's view of its team inside a region.
class Thread {
 public:
  Thread(Barrier& barrier, std::size_t index, std::size_t count) noexcept
      : barrier_(barrier), index_(index), count_(count) {}

  std::size_t index() const noexcept { return index_; }
  std::size_t count() const noexcept { return count_; }
  void barrier() noexcept { barrier_.wait(count_); }

  // This thread's part of n items, cut at multiples of `multiple`. Every thread gets a part of the same size
  // or one multiple less, maybe none; the parts depend on n, multiple and the team's size alone.
  Range split(std::size_t n, std::size_t multiple = 1) const noexcept;

 private:
  Barrier& barrier_;
  std::size_t index_, count_;
};

class Team {
 public:
  explicit Team(std::size_t n_threads) noexcept : n_threads_(n_threads) {}

  std::size_t size() const noexcept { return n_threads_; }
  void resize(std::size_t n_threads) noexcept { n_threads_ = n_threads; }

  // Runs work(thread) on every thread of the team and returns when all are done. `work` must not throw. Where
  // the host gives fewer threads (a limit, a nested region) the team is smaller; the result must not depend
  // on it.
  template <class Work>
  void run(Work&& work) noexcept {
    run_region([](void* context, Thread& thread) { (*static_cast<Work*>(context))(thread); }, &work);
  }

 private:
  void run_region(void (*work)(void* context, Thread& thread), void* context) noexcept;

  std::size_t n_threads_;
  Barrier barrier_;
};

}  // namespace runnel
