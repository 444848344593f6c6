// Models with random weights: the options that choose one, and what makes it.
#pragma once
#include <cstdint>
#include <string>

#include "command_line.h"
#include "library.h"

namespace cli {

struct SyntheticOptions {
  std::string shape, type = "f16";
  std::uint64_t seed = 0;
  CLI::Option* shape_option = nullptr;
  CLI::Option* type_option = nullptr;
  CLI::Option* seed_option = nullptr;

  void add_to(CLI::App& command);
};

// In memory.
Model make_model(const SyntheticOptions& options, const runnel_config* config);

}  // namespace cli
