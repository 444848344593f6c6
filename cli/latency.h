// Times of many single steps, in memory that does not grow with them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "json.h"
#include "stopwatch.h"

namespace cli {

// A histogram whose bins are as wide as 1/256 of the times they hold, up to 18 minutes.
class Latency {
 public:
  Latency();

  void add(std::int64_t ns);

  std::int64_t n() const { return n_; }
  double mean_us() const;
  // The least time that a share of the steps (0 to 1) does not exceed, to 0.4 %. 0 when there are none.
  double quantile_us(double share) const;
  double max_us() const { return static_cast<double>(max_ns_) / 1e3; }

  // Microseconds: mean, median, 99th and 99.9th percentile, longest.
  Json report() const;

 private:
  std::vector<std::uint32_t> counts_;
  std::int64_t n_ = 0, max_ns_ = 0;
  double sum_ns_ = 0;
};

}  // namespace cli
