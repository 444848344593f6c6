// Packing changes what no family computes: models of ../shared/golden, as they are and with outliers put in
// where balancing has to take them out again, give the logits of the original.
#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>

#include "lib/quantize/quantize.h"
#include "lib/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/model_weights.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"
#include "tests/support/require.h"
#include "tests/support/test_names.h"

namespace runnel::test {
namespace {

// All logits after some tokens, with weights and cache in f32.
std::vector<float> logits_of(const std::string& path) {
  const auto model = require(Model::open(path, {}));
  Settings settings;
  settings.threads = 1;
  settings.cache = CacheType::f32;
  const auto session = require(Session::open(model, settings));
  std::vector<Token> tokens(24);
  const auto n_vocab = static_cast<Token>(model->shape().n_vocab);
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
  require(session->feed(tokens, keep, &sink));
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

// Outliers of every kind that balancing takes out again, in each layer.
void inject(ModelWeights& model, const std::string& family) {
  const float s = 3000;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    if (family != "falcon-dense") {
      inject_norm(model, layer, "attn_norm", {"attn_q", "attn_k", "attn_v", "attn_qkv"}, 11, s);
      inject_norm(model, layer, "ffn_norm",
                  {"ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps", "ffn_gate_inp"}, 5, s);
    } else if (model.find(layer + "attn_norm_2.weight")) {
      inject_norm(model, layer, "attn_norm_2", {"attn_qkv"}, 11, s);
      inject_norm(model, layer, "attn_norm", {"ffn_up"}, 5, s);
    } else {
      inject_norm(model, layer, "attn_norm", {"attn_qkv", "ffn_up"}, 11, s);
    }
    const bool is_gated = family != "bloom-dense" && family != "falcon-dense" && family != "gpt2-dense";
    const std::size_t first_up = family == "phi3-dense" ? model.find(layer + "ffn_down.weight")->dims[0] : 0;
    if (is_gated) inject_hidden(model, layer, first_up, 9, s);
  }
}

void erase(ModelWeights& model, std::string_view ending) {
  std::erase_if(model.tensors, [&](const auto& tensor) { return tensor.first.ends_with(ending); });
}

class QuantizeFamily : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  // Packs a file; the logits of what was packed, computed in f32.
  std::vector<float> packed_logits(const std::string& in) {
    Settings settings;
    settings.threads = 2;
    require(quantize(in, path("packed"), {"i8", {}, {}}, settings));
    const ModelWeights original = ModelWeights::read(in);
    ModelWeights::read(path("packed"), &original).write(path("unpacked"), in);
    return logits_of(path("unpacked"));
  }

  double packing_error(const std::string& in, const std::vector<float>& exact) {
    const std::vector<float> packed = packed_logits(in);
    return nmse(packed.data(), exact.data(), exact.size());
  }

  // like: the file with the metadata.
  void expect_balanced(ModelWeights model, const std::string& family, const std::string& like) {
    model.write(path("plain"), like);
    const std::vector<float> exact = logits_of(path("plain"));
    inject(model, family);
    model.write(path("injected"), like);
    const std::vector<float> injected = logits_of(path("injected"));
    const double injection_error = nmse(injected.data(), exact.data(), exact.size());
    EXPECT_LT(injection_error, 1e-11) << "the injection itself";
    const double plain = packing_error(path("plain"), exact),
                 balanced = packing_error(path("injected"), exact);
    std::printf("%-14s NMSE of packing %.2g, of the injection %.2g, of packing it %.2g\n", family.c_str(),
                plain, injection_error, balanced);
    EXPECT_LT(balanced, 1.2 * plain);
  }

  Folder folder_;
};

class QuantizeFamilies : public QuantizeFamily, public testing::WithParamInterface<const char*> {};

TEST_P(QuantizeFamilies, keep_their_function) {
  const std::string name = std::string("golden/") + GetParam() + ".gguf";
  RUNNEL_NEEDS_SHARED(name);
  const std::string in = shared(name);
  const double error = packing_error(in, logits_of(in));
  EXPECT_GT(error, 0.0);
  EXPECT_LT(error, 2e-3);
}

// Without the scales that make attention and feed-forward networks of these models so small that logits
// hardly depend on them.
TEST_P(QuantizeFamilies, lose_their_outliers) {
  const std::string name = std::string("golden/") + GetParam() + ".gguf";
  RUNNEL_NEEDS_SHARED(name);
  ModelWeights model = ModelWeights::read(shared(name));
  erase(model, ".scale");
  expect_balanced(model, GetParam(), shared(name));
}

// Falcon 7B, where attention and the feed-forward network read one norm.
TEST_F(QuantizeFamily, falcon_of_one_norm_loses_its_outliers) {
  const std::string name = "golden/falcon-dense.gguf";
  RUNNEL_NEEDS_SHARED(name);
  ModelWeights model = ModelWeights::read(shared(name));
  for (const char* ending : {".scale", ".attn_norm_2.weight", ".attn_norm_2.bias"}) erase(model, ending);
  expect_balanced(model, "falcon-dense", shared(name));
}

INSTANTIATE_TEST_SUITE_P(Golden, QuantizeFamilies, testing::ValuesIn(golden_models), name_of_parameter);

}  // namespace
}  // namespace runnel::test
