// The balancing factors of one layer's sites (see lib/quantize/balance.h).
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "lib/quantize/moments.h"
#include "lib/quantize/pack_plan.h"
#include "lib/quantize/weight_rows.h"
#include "lib/result.h"

namespace runnel {

class LayerFactors {
 public:
  LayerFactors() = default;  // nothing is balanced

  // Of the tensors of one layer. moments: of the unchanged model, or null.
  static Result<LayerFactors> find(const PackPlan& plan, std::span<const PlannedTensor> tensors,
                                   std::size_t layer, const Moments* moments, WeightRows& rows);

  // Empty: all 1. expert: of ffn_hidden.
  std::span<const float> at(Site site, std::size_t expert) const;

 private:
  std::vector<float> attn_in_, ffn_in_;
  std::vector<std::vector<float>> ffn_hidden_;  // one an expert, or one
};

}  // namespace runnel
