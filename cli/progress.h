// A progress bar on standard error: fraction, rate and time left. Only on a terminal, and only once the work
// has taken a second, and not on one that cannot erase it (TERM=dumb); gone without a trace at the end, also
// where a signal ends the program.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "interrupt.h"

namespace cli {

class Progress {
 public:
  // The unit in the plural ("tokens"); total > 0.
  Progress(std::string label, std::int64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of the total; the note is shown at the end of the line.
  void update(std::int64_t done, std::string_view note = {});
  // One more.
  void advance() { update(done_ + 1); }

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double seconds, std::string_view note) const;

  std::string label_, unit_;
  std::int64_t total_, done_ = 0;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_;
};

// Of work whose share is known, not its parts.
class FractionProgress {
 public:
  explicit FractionProgress(std::string label) : bar_(std::move(label), n_steps, "parts") {}
  void update(double fraction) { bar_.update(static_cast<std::int64_t>(fraction * n_steps)); }

 private:
  static constexpr std::int64_t n_steps = 1000;
  Progress bar_;
};

// The progress of a call into the library, which gives it as a fraction. While it lives, Ctrl-C and SIGTERM
// end the call, which then takes away what it had written.
class CallProgress {
 public:
  explicit CallProgress(std::string label) : bar_(std::move(label)) {}

  // A runnel_progress_fn, with this object as `user`.
  static int call(void* user, double fraction);

 private:
  NoteInterrupt note_interrupt_;
  FinishFirst finish_first_;
  FractionProgress bar_;
};

}  // namespace cli
