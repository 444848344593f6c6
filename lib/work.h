// Progress of a long piece of work, in units of its own.
#pragma once
#include <functional>

#include "lib/result.h"

namespace runnel {

class Work {
 public:
  // on_progress gets the share done, 0 to 1; false stops the work. May be empty.
  Work(std::function<bool(double)> on_progress, double n_units)
      : on_progress_(std::move(on_progress)), n_units_(n_units) {}

  Result<void> advance(double n_units) {
    n_done_ += n_units;
    if (on_progress_ && !on_progress_(n_done_ < n_units_ ? n_done_ / n_units_ : 1.0))
      return error(RUNNEL_STOPPED, "stopped on request");
    return {};
  }

 private:
  std::function<bool(double)> on_progress_;
  double n_units_;
  double n_done_ = 0;
};

}  // namespace runnel
