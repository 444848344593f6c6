#include "lib/system/workers.h"

#include <chrono>

#include "lib/system/default_floats.h"
#include "lib/system/host_signals.h"
#include "lib/system/spin.h"

namespace runnel {
namespace {

constexpr auto awake_time = std::chrono::milliseconds(4);

}  // namespace

void Workers::resize(std::size_t n) {
  std::vector<Worker> workers(n);
  end();
  workers_.swap(workers);
}

std::size_t Workers::start() noexcept {
  forget_those_of_parent();
  if (n_started_ == workers_.size()) return n_started_;
  process_ = getpid();
  const HostSignalsBlocked blocked;  // on those that begin here, too
  for (; n_started_ < workers_.size(); ++n_started_) {
    Worker& worker = workers_[n_started_];
    worker = {this, n_started_ + 1, n_jobs_.load(std::memory_order_relaxed), {}};
    if (pthread_create(&worker.thread, nullptr, work, &worker) != 0) break;
  }
  return n_started_;
}

void Workers::forget_those_of_parent() noexcept {
  if (n_started_ > 0 && process_ != getpid()) n_started_ = 0;
}

void Workers::run_job(JobFunction job, void* context) noexcept {
  n_busy_.store(n_started_, std::memory_order_relaxed);
  announce_job(job, context);
  job(context, 0);
  for (Spin spin; n_busy_.load(std::memory_order_acquire) != 0;) spin.turn();
}

void Workers::announce_job(JobFunction job, void* context) noexcept {
  job_ = job;
  context_ = context;
  n_jobs_.fetch_add(1);  // sequentially consistent, as notify_all() asks next whether anybody sleeps
  n_jobs_.notify_all();
}

void Workers::await_job(std::uint32_t n_jobs) const noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + awake_time;
  for (Spin spin; n_jobs_.load(std::memory_order_acquire) == n_jobs;) {
    if (!spin.is_long() || Clock::now() < end)
      spin.turn();
    else
      n_jobs_.wait(n_jobs, std::memory_order_acquire);
  }
}

void* Workers::work(void* argument) noexcept {
  const Worker& worker = *static_cast<const Worker*>(argument);
  Workers& all = *worker.all;
  const DefaultFloats floats;
  for (std::uint32_t n_jobs = worker.n_jobs;; ++n_jobs) {
    all.await_job(n_jobs);
    if (all.job_ == nullptr) return nullptr;
    all.job_(all.context_, worker.index);
    all.n_busy_.fetch_sub(1, std::memory_order_release);
  }
}

void Workers::end() noexcept {
  forget_those_of_parent();
  if (n_started_ == 0) return;
  announce_job(nullptr, nullptr);
  for (; n_started_ > 0; --n_started_) pthread_join(workers_[n_started_ - 1].thread, nullptr);
}

}  // namespace runnel
