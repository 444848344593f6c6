#include "stopwatch.h"

#include <time.h>

namespace cli {
namespace {

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Elapsed now() { return {now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_PROCESS_CPUTIME_ID)}; }

}  // namespace

Stopwatch::Stopwatch() : start_(now()) {}

Elapsed Stopwatch::elapsed() const {
  const Elapsed end = now();
  return {end.ns - start_.ns, end.cpu_ns - start_.cpu_ns};
}

double Stopwatch::seconds() const { return static_cast<double>(elapsed().ns) / 1e9; }

}  // namespace cli
