// Threads that wait for something to do beside the thread that has it. They begin with the first job and end
// with the object. After a job they stay awake for a few milliseconds, since the next token's mostly comes
// soon, and then sleep.
//
// One thread at a time may use the object. In the child of a fork() it has none of the parent's threads, and
// starts its own.
#pragma once
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace runnel {

class Workers {
 public:
  explicit Workers(std::size_t n) : workers_(n) {}  // n at most
  ~Workers() { end(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void resize(std::size_t n);

  // How many there are, after those that are not there yet were started: fewer than asked for where the
  // system refuses them, which is tried again each time.
  std::size_t start() noexcept;

  // job(i) on all of them that have been started, i from 1 on, and job(0) on this thread. Returns when all
  // are done.
  template <class Job>
  void run(Job&& job) noexcept {
    run_job([](void* context, std::size_t i) { (*static_cast<Job*>(context))(i); }, &job);
  }

 private:
  using JobFunction = void (*)(void* context, std::size_t i);
  struct Worker {
    Workers* all;
    std::size_t index;
    std::uint32_t n_jobs;  // that there were before it began
    pthread_t thread;
  };

  void run_job(JobFunction job, void* context) noexcept;
  void announce_job(JobFunction job, void* context) noexcept;
  void await_job(std::uint32_t n_jobs) const noexcept;  // the one after so many
  static void* work(void* argument) noexcept;
  void end() noexcept;
  void forget_those_of_parent() noexcept;  // in the child of a fork()

  std::vector<Worker> workers_;
  std::size_t n_started_ = 0;
  pid_t process_ = 0;          // whose threads they are
  JobFunction job_ = nullptr;  // null: they end
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> n_jobs_{0};
  alignas(64) std::atomic<std::size_t> n_busy_{0};
};

}  // namespace runnel
