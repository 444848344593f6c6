// An observer that hands everything to two C callbacks, a row at a time.
#pragma once
#include <mutex>

#include "lib/observer.h"
#include "runnel/runnel.h"

namespace runnel {

class CallbackObserver final : public Observer {
 public:
  CallbackObserver(runnel_rows_fn on_rows, runnel_mass_fn on_mass, void* user)
      : on_rows_(on_rows), on_mass_(on_mass), user_(user) {}

  void see(const Observation& what) noexcept override {
    if (!on_rows_) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t t = 0; t < what.n_tok; ++t) {
      const std::size_t token = what.tokens ? what.tokens[t] : t;
      on_rows_(user_, static_cast<runnel_site>(what.site), static_cast<std::int32_t>(what.layer),
               what.first_position + static_cast<std::int64_t>(token), what.rows.data + t * what.rows.stride,
               what.n_cols);
    }
  }

  void see_prefix_mass(std::size_t layer, std::size_t head, std::int64_t position,
                       float mass) noexcept override {
    if (!on_mass_) return;
    const std::lock_guard lock(mutex_);
    on_mass_(user_, static_cast<std::int32_t>(layer), static_cast<std::int32_t>(head), position, mass);
  }

 private:
  std::mutex mutex_;  // callbacks need not think of threads
  runnel_rows_fn on_rows_;
  runnel_mass_fn on_mass_;
  void* user_;
};

static_assert(static_cast<int>(Site::output_in) == RUNNEL_SITE_OUTPUT_IN);

}  // namespace runnel
