// What becomes of each tensor of a model when it is packed as int8, decided from names and shapes alone.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/model.h"
#include "lib/observer.h"
#include "quant/i8.h"

namespace runnel {

enum class Treatment {
  copy,      // byte for byte: what is no weight
  to_f32,    // norms, biases, the router, and a fused matrix whose parts do not begin at panels
  pack,      // rounded
  pack_q8_0  // Q8_0 blocks as they are
};

constexpr std::size_t no_layer = static_cast<std::size_t>(-1);

// 12 for "blk.12.attn_q.weight"; no_layer for tensors of the model as a whole.
std::size_t layer_of(std::string_view tensor);

struct PlannedTensor {
  const GgufTensor* source;
  Treatment treatment = Treatment::copy;
  std::size_t layer;          // no_layer: of the model as a whole; n_layer: of its output
  quant::ShapeI8 shape = {};  // of the packed ones: of one matrix
  std::size_t n_matrix = 0;   // of a stack (experts); 0: a single matrix

  // How it takes part in balancing.
  std::optional<Site> reads = std::nullopt;  // a matrix: its columns read this
  // A norm, or the rows (or bias) of an up-projection: it makes this.
  std::optional<Site> gives = std::nullopt;
  std::size_t first_given = 0;  // of its rows or numbers: those before make something else

  bool is_packed() const { return treatment == Treatment::pack || treatment == Treatment::pack_q8_0; }
  std::size_t n_matrices() const { return n_matrix > 0 ? n_matrix : 1; }
};

struct PackPlan {
  // Those of the model as a whole, then layer by layer, then the output's.
  std::vector<PlannedTensor> tensors;
  // A parallel layer (Falcon) whose one norm serves attention and feed-forward: a factor for one is one for
  // both.
  bool one_norm = false;
};

// keeps_q8_0: Q8_0 matrices are taken over without loss.
PackPlan plan_packing(const Model& model, bool keeps_q8_0);

}  // namespace runnel
