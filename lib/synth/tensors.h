// The tensors of a shape, with the names of GGUF files and how their numbers are chosen.
#pragma once
#include <string>
#include <vector>

#include "lib/synth/shapes.h"

namespace runnel {

struct SynthTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // dims[0] contiguous; a matrix is [n_in, n_out], all else vectors
  float mean, spread;               // uniform in mean +- spread
  std::vector<float> values;        // in place of random numbers; mostly empty

  bool is_matrix() const { return dims.size() > 1; }
  std::uint64_t n_elements() const;
};

std::vector<SynthTensor> synth_tensors(const SynthShape& shape);

}  // namespace runnel
