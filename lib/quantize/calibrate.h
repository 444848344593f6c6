// Runs a model over a text for an observer to watch.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/model.h"
#include "lib/observer.h"
#include "lib/result.h"
#include "lib/system/parallel.h"
#include "simd/kernels.h"

namespace runnel {

class Calibration {
 public:
  // Tokenizes the text (special tokens spelled in it become those tokens) and takes pieces of it, evenly
  // spread, 8 to 10 thousand tokens in all: more were measured to change nothing. Fewer than 128 tokens are
  // an error.
  static Result<Calibration> create(const Model& model, std::string_view text);

  std::size_t n_pieces() const { return pieces_.size(); }

  // Reads all pieces, each from an empty cache, in f32. on_layer is called after each layer of each piece,
  // on the thread of this call; its error ends the work when the next layer is done.
  Result<void> run(const Model& model, const simd::Kernels& kernels, std::size_t n_threads,
                   Observer& observer, const std::function<Result<void>()>& on_layer) const;

 private:
  std::size_t n_piece_ = 0;  // tokens
  std::vector<std::vector<Token>> pieces_;
};

}  // namespace runnel
