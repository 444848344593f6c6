// Collects second moments of what the matrices of some layers read, while a model reads a text.
#pragma once
#include <cstddef>
#include <vector>

#include "lib/model.h"
#include "lib/observer.h"
#include "lib/quantize/feedback.h"
#include "simd/kernels.h"

namespace runnel {

class Moments final : public Observer {
 public:
  // Layers [begin, end); n_layer stands for what the output matrix reads.
  Moments(const Model& model, const simd::Kernels& kernels, std::size_t begin, std::size_t end);

  // Bytes one layer takes.
  static std::size_t layer_bytes(const Shape& shape, std::size_t layer);

  // Of a layer within [begin, end), or null: too few tokens came by to tell anything. expert: of ffn_hidden.
  const SecondMoments* find(std::size_t layer, Site site, std::size_t expert) const;

  void see(const Observation& what) noexcept override;
  void see_prefix_mass(std::size_t, std::size_t, std::int64_t, float) noexcept override {}

 private:
  bool has(std::size_t layer, std::size_t place) const;

  const GgufFile& file_;
  const simd::Kernels& kernels_;
  std::size_t begin_;
  std::vector<std::vector<SecondMoments>> layers_;  // of sites by their place_of(), from layer begin_ on
  std::vector<std::vector<const GgufTensor*>> layer_tensors_;  // of every layer of the model
};

}  // namespace runnel
