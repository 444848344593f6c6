// Reads the rows of a file's matrices as f32, block by block, so that a model larger than the memory goes
// through.
#pragma once
#include <cstddef>
#include <vector>

#include "lib/io/gguf.h"
#include "lib/result.h"
#include "lib/system/parallel.h"
#include "simd/kernels.h"

namespace runnel {

// Rows of a tensor of any rank: its matrices, one after another.
inline std::size_t n_rows(const GgufTensor& tensor) {
  return tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
}

class WeightRows {
 public:
  WeightRows(const GgufFile& file, Team& team, const simd::Kernels& kernels)
      : file_(file), team_(team), kernels_(kernels) {}

  // Rows to read at a time: about 16 MB of f32 and a multiple of 16, or those 16 where they are longer.
  static std::size_t block_rows(std::size_t n_cols);

  // Rows [begin, begin + n) of the tensor as f32 [n, n_cols], n at most block_rows(), valid until the next
  // call. A number that is not finite is an error which names it.
  Result<float*> read(const GgufTensor& tensor, std::size_t begin, std::size_t n);

  const GgufFile& file() const { return file_; }
  Team& team() const { return team_; }
  const simd::Kernels& kernels() const { return kernels_; }

 private:
  const GgufFile& file_;
  Team& team_;
  const simd::Kernels& kernels_;
  std::vector<float> rows_;
};

// The error for a number with which there is trouble: "expected...", "F16 cannot hold it". `row` counts
// through the matrices of a stack.
Error bad_weight(const GgufFile& file, const GgufTensor& tensor, std::size_t row, std::size_t col,
                 float value, const char* trouble);

}  // namespace runnel
