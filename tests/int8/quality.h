// How far a model's predictions are from those of its original, and the arithmetics that int8 is compared
// with.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/forward.h"
#include "lib/kv_cache.h"
#include "lib/model.h"
#include "lib/observer.h"
#include "lib/quantize/quantize.h"

namespace runnel::test {

// ---- Arithmetics, simulated on f32 models: weights that were rounded and are f32 again, and observers that
// round what matrices read. Products are exact sums of what is left, so that only the rounding is measured.

// Changes rows of activations in place: [n_tok] rows of n_cols.
using ChangeRow = std::function<void(float* row, std::size_t n_cols)>;

// To int8 and back, with one scale a block of `block` numbers (the last one shorter); 0: a row.
// scale_is_f16: as GGUF's Q8_0 keeps it.
void round_to_int8(float* row, std::size_t n, std::size_t block, bool scale_is_f16);
void round_to_f16(float* row, std::size_t n);

// What a run is changed by. Needs a team of one thread, whose own rows these are.
class Changes final : public Observer {
 public:
  ChangeRow reads;         // what matrices read; may be empty
  ChangeRow reads_hidden;  // what ffn_down reads; empty: like the others
  // Entries of the residual stream in layer 1: `factor` times the row's median magnitude in one dimension of
  // tokens at every `every`-th position; 0: none.
  double stream_factor = 0;
  std::int64_t stream_every = 64;
  std::size_t stream_dimension = 17;

  void see(const Observation& what) noexcept override;
  void see_prefix_mass(std::size_t, std::size_t, std::int64_t, float) noexcept override {}
};

// ---- Figures

struct Figures {
  double kl = 0, kl_99 = 0, kl_max = 0;  // nats: mean, 99 %, largest
  double same_top = 0;                   // share of tokens with the same likeliest successor
  double same_top_error = 0;
  double ln_ppl = 0;  // of the model over that of the original
  std::size_t n = 0;
  bool finite = true;  // all logits
};

// A model, and how it is run.
struct ModelRun {
  std::string path;
  Changes changes;
};

// Both read the chunks, each from an empty f32 cache; the second half of each is scored.
Figures compare(ModelRun& original, ModelRun& model, const std::vector<std::vector<Token>>& chunks);

// A text as the model's chunks, with BOS at the start of each where it wants one; at most n_chunks of them.
std::vector<std::vector<Token>> chunks_of(const std::string& model_path, const std::string& text,
                                          std::size_t n_chunk, std::size_t n_chunks);

// ---- Files, made from an f32 one

// Every matrix row changed by `change`; ffn_down (and of experts) by change_down.
void write_rounded(const std::string& in, const std::string& out, const ChangeRow& change,
                   const ChangeRow& change_down);

// Channels that carry s times more without changing the function: n in each layer behind either norm, and as
// many hidden units. For models of the Llama family.
void write_with_outliers(const std::string& in, const std::string& out, float s, std::size_t n);

void pack(const std::string& in, const std::string& out, const std::string& calibration);

}  // namespace runnel::test
