// What a file says of rotary positions: its keys <architecture>.rope.*, and factors of frequencies as
// tensors.
#pragma once
#include <string>

#include "lib/model.h"
#include "lib/rope.h"

namespace runnel {

class RopeLoader {
 public:
  explicit RopeLoader(const Model& model) : model_(model), file_(model.file()) {}

  // For sessions that see n_ctx tokens.
  Result<RopeParams> load(std::size_t n_ctx);

 private:
  Result<void> read_frequencies();
  Result<void> read_scaling();
  Result<void> read_yarn(double factor);
  Result<void> read_factors(const char* tensor_name);

  std::string key(const char* name) const;  // "<architecture>.rope.<name>"
  Error bad(const char* name, double value) const;

  const Model& model_;
  const GgufFile& file_;
  RopeParams params_;
};

}  // namespace runnel
