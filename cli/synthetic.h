// Models with random weights: the options that choose one, and the progress of making it.
#pragma once
#include <cstdint>
#include <string>

#include "interrupt.h"
#include "library.h"
#include "options.h"
#include "progress.h"

namespace cli {

struct SyntheticOptions {
  std::string shape, type = "f16";
  std::uint64_t seed = 0;
  CLI::Option* shape_option = nullptr;
  CLI::Option* type_option = nullptr;
  CLI::Option* seed_option = nullptr;

  void add_to(CLI::App& command);
};

// While it lives, Ctrl-C ends the making.
class SynthesisProgress {
 public:
  explicit SynthesisProgress(std::string label) : bar_(std::move(label), n_steps, "parts") {}

  // For the library, with this object as `user`. It reports a fraction; the bar counts in thousandths.
  static int call(void* user, double fraction);

  // As cli::check, but what Ctrl-C ended is Interrupted, and an unknown shape or type UsageError.
  static void check(runnel_status status);

 private:
  static constexpr std::int64_t n_steps = 1000;
  NoteInterrupt note_interrupt_;
  Progress bar_;
};

// In memory.
Model make_model(const SyntheticOptions& options, const runnel_config* config);

}  // namespace cli
