// The last token's results are the same whether those of the whole batch are wanted, which test_exactness.cpp
// holds against the definition, or no others, when the batch leaves its first tokens out of the last layer.
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/forward.h"
#include "lib/quantize/quantize.h"
#include "tests/stream/models.h"
#include "tests/support/numbers.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel;
using namespace runnel::test;

constexpr CacheSize size = {
    .n_prefix = 4, .window = 40, .batch = 128};  // a window that some of the text leaves

// Reads batches, with an f32 cache.
class Reader {
 public:
  Reader(const Model& model, const simd::Kernels& kernels, Outputs outputs, std::size_t n_threads)
      : outputs_(outputs),
        n_vocab_(model.shape().n_vocab),
        team_(n_threads),
        cache_(model, size, CacheType::f32),
        forward_(model, kernels, require(model.rope(size.n_prefix + size.window)), size, n_threads) {}

  // Logits after the last token.
  std::vector<float> read(std::span<const Token> tokens) {
    forward_.run(team_, cache_, tokens, outputs_);
    cache_.advance(static_cast<std::int64_t>(tokens.size()));
    const float* const logits = forward_.last_logits(team_);
    return {logits, logits + n_vocab_};
  }

 private:
  Outputs outputs_;
  std::size_t n_vocab_;
  Team team_;
  KvCache cache_;
  Forward forward_;
};

// NMSE of the logits after each batch, the largest.
double worst_difference(const Model& model, const simd::Kernels& kernels, std::size_t n_threads) {
  Reader all(model, kernels, Outputs::all, n_threads), last(model, kernels, Outputs::last, n_threads);
  const auto tokens = random_tokens(420, model.shape().n_vocab);
  double worst = 0;
  std::size_t at = 0;
  for (const std::size_t n : {128U, 70U, 1U, 60U, 2U, 33U, 126U}) {
    const std::span<const Token> batch = std::span(tokens).subspan(at, n);
    const std::vector<float> expected = all.read(batch), logits = last.read(batch);
    worst = std::max(worst, nmse(logits.data(), expected.data(), logits.size()));
    at += n;
  }
  return worst;
}

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, leave_the_same) {
  RUNNEL_NEEDS_SHARED(std::string("golden/") + GetParam() + ".gguf");
  const simd::IsaRow* row = nullptr;
  EXPECT_LT(worst_difference(*golden(GetParam()), simd::select(nullptr, simd::cpu_features(), &row), 2),
            1e-11);
}

INSTANTIATE_TEST_SUITE_P(outputs, Families,
                         testing::Values("llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense",
                                         "gemma2-dense", "phi3-dense", "granite-dense", "falcon-dense",
                                         "bloom-dense"),
                         [](const auto& test) { return test_name(test.param); });

class Types : public testing::TestWithParam<const char*> {};

// The bundled model. The same numbers, for the tokens that are left are multiplied as the whole batch; but
// for sums of products in bf16, which may be in any order.
TEST_P(Types, leave_the_same_numbers) {
  const Folder folder;
  const std::string path = folder.file("model.gguf");
  require(quantize(demo_model(), path, {GetParam(), {}, {}}, {}));
  const auto model = open_file(path);
  const auto rows = simd::isa_rows();
  for (const simd::IsaRow& built : rows.first(rows.size() - 1)) {  // the last one would take long
    const simd::IsaRow* row = nullptr;
    const simd::Kernels kernels = simd::select(built.name, simd::cpu_features(), &row);
    if (!row) continue;  // not on this machine
    const double most = kernels.least_bf16() <= static_cast<std::size_t>(size.batch) ? 1e-6 : 0;
    for (const std::size_t n_threads : {1U, 2U})
      EXPECT_LE(worst_difference(*model, kernels, n_threads), most) << built.name;
  }
}

INSTANTIATE_TEST_SUITE_P(outputs, Types, testing::Values("f16", "q8_0", "i8"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
