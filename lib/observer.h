// Looks into a running forward pass: for calibration and for `inspect`. Costs nothing where nobody looks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lib/linear/linear.h"

namespace runnel {

enum class Site {
  stream,      // the residual stream as a layer finds it, and (layer = n_layer) as the last one leaves it
  attn_in,     // what q, k and v read
  attn_out,    // what the attention output matrix reads
  ffn_in,      // what gate, up and the router read
  ffn_hidden,  // what down reads
  output_in    // what the output matrix reads (layer = n_layer)
};

struct Observation {
  Site site;
  std::size_t layer;
  ConstRows rows;  // [n_tok, n_cols]
  std::size_t n_tok, n_cols;
  // Which tokens of the batch the rows are, or null: 0, 1, ... (an expert sees some only).
  const std::size_t* tokens;
  std::size_t expert;           // of ffn_hidden in a mixture, else 0
  std::int64_t first_position;  // of the batch's token 0
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Called by one thread at a time, in the order of the computation; must not keep the pointers.
  virtual void see(const Observation& what) noexcept = 0;
  // Share of a query's attention that goes to the prefix (the sinks), 0 to 1. Called by several threads at
  // once, each for other heads and tokens.
  virtual void see_prefix_mass(std::size_t layer, std::size_t head, std::int64_t position,
                               float mass) noexcept = 0;
};

}  // namespace runnel
