// Turns a parsed file into a model: reads the shape, finds every tensor, checks each against the shape.
// Weights that it has no use for are an error: without them the model would be another.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "lib/io/packed_file.h"
#include "lib/model.h"

namespace runnel {

class ModelLoader {
 public:
  explicit ModelLoader(Model& model)
      : model_(model), file_(model.file_), shape_(model.shape_), is_claimed_(model.file_.tensors().size()) {}

  Result<void> load();

 private:
  std::string key(const char* name) const;  // "<architecture>.<name>"

  Result<void> read_shape();
  // Of a row of activations; name: the key that makes it so wide.
  Result<void> check_width(const char* name, std::size_t width) const;
  Result<void> read_factors();
  Result<void> read_weights();
  Result<void> read_layer(std::size_t i, Layer& layer);
  Result<void> read_attention(const std::string& prefix, Layer& layer);
  Result<void> read_ffn(const std::string& prefix, Layer& layer);
  Result<void> read_experts(const std::string& prefix, Layer& layer);

  // Tensor <name>.weight [n_rows, n_cols] with its optional <name>.bias and <name>.scale.
  Result<Linear> linear(const std::string& name, std::size_t n_rows, std::size_t n_cols);
  Result<void> check_slices(const Linear& w, const std::string& name,
                            std::initializer_list<std::size_t> cuts) const;
  // Matrices whose parameters are counted; n_matrix as in find_packed().
  Result<PackedStack> packed(const std::string& name, std::size_t n_rows, std::size_t n_cols,
                             std::size_t n_matrix = 0);
  Result<Linear> matrix(const std::string& name, std::size_t n_rows, std::size_t n_cols);
  Result<std::vector<Linear>> linears(const std::string& name, std::size_t n, std::size_t n_rows,
                                      std::size_t n_cols);
  // The scale of a feed-forward matrix, in families that have it, is meant for the bias too: y = scale (W x +
  // bias).
  void settle_ffn_scale(Linear& linear);
  Result<NormWeights> norm(const std::string& name, std::size_t n);

  // Tensor of exactly n numbers as f32, converted where need be.
  Result<const float*> vector(const std::string& name, std::size_t n);
  Result<const float*> optional_vector(const std::string& name, std::size_t n);  // null when it is not there
  Result<const GgufTensor*> tensor(const std::string& name, std::initializer_list<std::uint64_t> dims);
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  // The tensor, which from now on is one that the model uses; null when it is not there.
  const GgufTensor* claim(const std::string& name);
  Result<void> refuse_unclaimed() const;
  Error missing(const std::string& name) const;

  Model& model_;
  const GgufFile& file_;
  Shape& shape_;
  std::vector<bool> is_claimed_;  // of the file's tensors, in its order
};

}  // namespace runnel
