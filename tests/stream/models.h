// Small models for tests of the stream: those of ../shared/golden, and ones with random weights made here.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lib/model.h"
#include "lib/quantize/quantize.h"
#include "lib/synth/synthetic_file.h"
#include "quant/tensor_type.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"
#include "tests/support/require.h"

namespace runnel::test {

constexpr SynthShape tiny(const char* architecture, std::uint32_t n_head_kv) {
  return {.name = "tiny",
          .architecture = architecture,
          .n_vocab = 300,
          .n_embd = 64,
          .n_layer = 2,
          .n_head = 4,
          .n_head_kv = n_head_kv,
          .head_dim = 16,
          .n_ff = 96,
          .n_ctx_train = 64};
}

inline std::shared_ptr<const Model> open_file(const std::string& path) {
  return require(Model::open(path, {}));
}

// The bundled model in F32. Its own F16 weights are multiplied in rounded activations by some kernels
// (quant/i16.h), which is no error of the stream.
inline const std::string& demo_model_f32() {
  static const Folder folder;
  static const std::string path = [] {
    std::string out = folder.file("demo-f32.gguf");
    require(quantize(demo_model(), out, {"f32", {}, {}}, {}));
    return out;
  }();
  return path;
}

inline std::shared_ptr<const Model> golden(const std::string& name) {
  return open_file(shared("golden/" + name + ".gguf"));
}

inline std::shared_ptr<const Model> synthetic(const SynthShape& shape) {
  return require(make_synthetic({shape, &quant::type_info(quant::TensorType::f32), 1, {}}, {}));
}

inline std::vector<Token> random_tokens(std::size_t n, std::size_t n_vocab) {
  std::mt19937 random(7);
  std::vector<Token> tokens(n);
  for (Token& t : tokens) t = static_cast<Token>(random() % n_vocab);
  return tokens;
}

}  // namespace runnel::test
