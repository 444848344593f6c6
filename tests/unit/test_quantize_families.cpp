// Packing changes what no family computes: models of ../shared/golden, as they are and with outliers put in
// where balancing has to take them out again, give the logits of the original.
#include <gtest/gtest.h>

#include <initializer_list>

#include "lib/quantize/quantize.h"
#include "lib/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/model_weights.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"

namespace runnel::test {
namespace {

// All logits after some tokens, with weights and cache in f32.
std::vector<float> logits_of(const std::string& path) {
  auto model = Model::open(path, {});
  if (!model) throw std::runtime_error(model.error().message);
  Settings settings;
  settings.threads = 1;
  settings.cache = CacheType::f32;
  auto session = Session::open(*model, settings);
  if (!session) throw std::runtime_error(session.error().message);
  std::vector<Token> tokens(24);
  const auto n_vocab = static_cast<Token>((*model)->shape().n_vocab);
  for (Token t = 0; t < 24; ++t) tokens[static_cast<std::size_t>(t)] = (7 * t + 3) % n_vocab;
  struct Sink {
    std::vector<float> logits;
    std::size_t n_vocab;
  } sink{{}, static_cast<std::size_t>(n_vocab)};
  const auto keep = [](void* user, std::int64_t, const float* logits) {
    auto* to = static_cast<Sink*>(user);
    to->logits.insert(to->logits.end(), logits, logits + to->n_vocab);
    return 0;
  };
  if (!(*session)->feed(tokens, keep, &sink)) throw std::runtime_error("feed");
  return sink.logits;
}

void scale_columns(WeightTensor* matrix, std::size_t col, float factor) {
  if (!matrix) return;
  for (std::size_t r = 0; r < matrix->n_rows(); ++r) matrix->row(r)[col] *= factor;
}

// The same function, with s between a norm and the matrices that read it.
void inject_norm(ModelWeights& model, const std::string& layer, const char* norm,
                 std::initializer_list<const char*> readers, std::size_t channel, float s) {
  WeightTensor* gain = model.find(layer + norm + ".weight");
  ASSERT_TRUE(gain) << norm;
  gain->values[channel] *= s;
  if (WeightTensor* bias = model.find(layer + norm + ".bias")) bias->values[channel] *= s;
  for (const char* reader : readers) scale_columns(model.find(layer + reader + ".weight"), channel, 1 / s);
}

// The same for a hidden unit of a gated network: `first` is where the up-projection begins in its tensor.
void inject_hidden(ModelWeights& model, const std::string& layer, std::size_t first, std::size_t unit,
                   float s) {
  if (WeightTensor* up = model.find(layer + "ffn_up.weight")) {
    for (std::size_t c = 0; c < up->n_cols(); ++c) up->row(first + unit)[c] *= s;
    if (WeightTensor* bias = model.find(layer + "ffn_up.bias")) bias->values[first + unit] *= s;
    scale_columns(model.find(layer + "ffn_down.weight"), unit, 1 / s);
  }
  WeightTensor *ups = model.find(layer + "ffn_up_exps.weight"),
               *downs = model.find(layer + "ffn_down_exps.weight");
  if (!ups) return;
  const std::size_t expert = 1, n_ff = ups->dims[1], n_embd = downs->dims[1];  // of one expert only
  for (std::size_t c = 0; c < ups->n_cols(); ++c) ups->row(expert * n_ff + unit)[c] *= s;
  for (std::size_t r = 0; r < n_embd; ++r) downs->row(expert * n_embd + r)[unit] /= s;
}

class QuantizeFamilies : public testing::TestWithParam<const char*> {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  // Packs a file; the logits of what was packed, computed in f32.
  std::vector<float> packed_logits(const std::string& in) {
    Settings settings;
    settings.threads = 2;
    const Result<void> result = quantize(in, path("packed"), {"i8", {}, {}}, settings);
    if (!result) throw std::runtime_error(result.error().message);
    const ModelWeights original = ModelWeights::read(in);
    ModelWeights::read(path("packed"), &original).write(path("unpacked"), in);
    return logits_of(path("unpacked"));
  }

  Folder folder_;
};

TEST_P(QuantizeFamilies, keep_their_function) {
  const std::string name = std::string("golden/") + GetParam() + ".gguf";
  RUNNEL_NEEDS_SHARED(name);
  const std::string in = shared(name);
  const std::vector<float> exact = logits_of(in), packed = packed_logits(in);
  const double plain_error = nmse(packed.data(), exact.data(), exact.size());
  EXPECT_GT(plain_error, 0.0);
  EXPECT_LT(plain_error, 2e-3);

  ModelWeights weights = ModelWeights::read(in);
  const std::string family = GetParam();
  const std::size_t first_up = family == "phi3-dense" ? weights.find("blk.0.ffn_down.weight")->dims[0] : 0;
  const bool is_gated = family != "bloom-dense" && family != "falcon-dense" && family != "gpt2-dense";
  const float s = 3000;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    if (family == "falcon-dense") {
      inject_norm(weights, layer, "attn_norm", {"attn_qkv", "ffn_up"}, 11, s);
    } else {
      inject_norm(weights, layer, "attn_norm", {"attn_q", "attn_k", "attn_v", "attn_qkv"}, 11, s);
      inject_norm(weights, layer, "ffn_norm",
                  {"ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps", "ffn_gate_inp"}, 5, s);
    }
    if (is_gated) inject_hidden(weights, layer, first_up, 9, s);
  }
  weights.write(path("injected"), in);
  const std::vector<float> injected = logits_of(path("injected"));
  EXPECT_LT(nmse(injected.data(), exact.data(), exact.size()), 1e-6) << "the injection itself";
  const std::vector<float> balanced = packed_logits(path("injected"));
  EXPECT_LT(nmse(balanced.data(), exact.data(), exact.size()), 2 * plain_error);
}

INSTANTIATE_TEST_SUITE_P(Golden, QuantizeFamilies, testing::ValuesIn(golden_models), name_of_parameter);

}  // namespace
}  // namespace runnel::test
