// What a file says of rotary positions: its keys <architecture>.rope.*, and factors of frequencies as
// tensors.
#pragma once
#include <string>

#include "lib/model.h"
#include "lib/rope.h"

namespace runnel {

// The tensors: [n_rot / 2] numbers that divide the frequencies, of any context or (LongRoPE) of those that
// fit the first training and those that do not.
constexpr const char* rope_freqs_tensor = "rope_freqs.weight";
constexpr const char* rope_short_tensor = "rope_factors_short.weight";
constexpr const char* rope_long_tensor = "rope_factors_long.weight";

class RopeLoader {
 public:
  RopeLoader(const GgufFile& file, const std::string& architecture, const Shape& shape)
      : file_(file), prefix_(architecture + ".rope."), shape_(shape) {}

  // For sessions that see n_ctx tokens.
  Result<RopeParams> load(std::size_t n_ctx);
  Result<std::size_t> n_ctx_default();  // see Model

 private:
  Result<void> read_frequencies();
  Result<void> check_window_base() const;
  Result<void> read_scaling();
  Result<void> read_yarn(double factor);
  Result<void> read_factors(const char* tensor_name);

  std::string key(const char* name) const { return prefix_ + name; }
  Error bad(const char* name, double value) const;

  const GgufFile& file_;
  const std::string prefix_;
  const Shape& shape_;
  RopeParams params_;
};

}  // namespace runnel
