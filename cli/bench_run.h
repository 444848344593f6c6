// The measurements of runnel bench.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "json.h"
#include "library.h"
#include "options.h"

namespace cli {

struct BenchPlan {
  std::vector<std::int32_t> threads;
  std::int64_t n_prompt = 512;  // tokens of the prompt; 0: none
  std::int64_t n_decode = 64;   // tokens decoded one by one; 0: none
  std::int64_t depth = 0;       // tokens the full window shows them; 0: no such part
  std::int64_t n_repeat = 5;    // of each, after one that does not count
};

// Seconds to open a session, read one token and choose the next.
double time_first_token(const runnel_model* model, const runnel_config* config);

// One object for each number of threads. `settings` holds the cache's type and such.
Json measure(const runnel_model* model, const SettingOptions& settings, const BenchPlan& plan);

// The type of most of the weights: "F16", "Q8_0"...
std::string weight_type(const runnel_model* model);

}  // namespace cli
