// A stream that has come far: at position 10^9, and past 2^32, every distance and so every logit is what it
// was at the start. Nothing but the position tells a test that starts there from one that has read as many
// tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "lib/forward.h"
#include "lib/io/gguf_writer.h"
#include "lib/session/session.h"
#include "tests/stream/models.h"
#include "tests/stream/slow_decoder.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel;
using namespace runnel::test;

constexpr std::int64_t far_positions[] = {1'000'000'000, (std::int64_t{1} << 32) + 12'345};
constexpr CacheSize size = {.n_prefix = 4, .window = 28, .batch = 8};
constexpr std::size_t n_tokens = 140;  // four windows past the prefix

std::vector<Token> random_tokens(const Model& model) {
  std::mt19937 random(11);
  std::vector<Token> tokens(n_tokens);
  for (Token& t : tokens) t = static_cast<Token>(random() % model.shape().n_vocab);
  return tokens;
}

// What a session does with tokens, with an f32 cache; and it can leap.
class Stream {
 public:
  explicit Stream(const Model& model)
      : model_(model),
        kernels_(simd::select(nullptr, simd::cpu_features(), &row_)),
        team_(2),
        cache_(model, size, CacheType::f32),
        forward_(model, kernels_, require(model.rope(size.n_prefix + size.window)), size, 2) {}

  // Logits [n, n_vocab] after each token.
  std::vector<float> read(std::span<const Token> tokens) {
    std::vector<float> all;
    while (!tokens.empty()) {
      const std::size_t n = std::min(tokens.size(), static_cast<std::size_t>(size.batch));
      forward_.run(team_, cache_, tokens.first(n), Outputs::all);
      const float* logits = forward_.logits(team_, 0, n);
      all.insert(all.end(), logits, logits + n * model_.shape().n_vocab);
      cache_.advance(static_cast<std::int64_t>(n));
      tokens = tokens.subspan(n);
    }
    return all;
  }

  // As if tokens had come and left the window until this position.
  void leap(std::int64_t position) {
    cache_.advance(position - cache_.position());
    cache_.evict(position);
  }

  std::int64_t position() const { return cache_.position(); }

 private:
  const Model& model_;
  const simd::IsaRow* row_ = nullptr;
  simd::Kernels kernels_;
  Team team_;
  KvCache cache_;
  Forward forward_;
};

// The first tokens at the start, the others from this position on.
std::vector<float> logits_from(const Model& model, std::span<const Token> tokens, std::int64_t position) {
  Stream stream(model);
  constexpr auto n_prefix = static_cast<std::size_t>(size.n_prefix);
  std::vector<float> all = stream.read(tokens.first(n_prefix));
  stream.leap(position);
  const std::vector<float> others = stream.read(tokens.subspan(n_prefix));
  EXPECT_EQ(stream.position(), position + static_cast<std::int64_t>(tokens.size() - n_prefix));
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

template <class Expected>
double worst_error(const std::vector<float>& logits, const Expected& expected, std::size_t n_vocab) {
  double worst = 0;
  for (std::size_t at = 0; at < logits.size(); at += n_vocab)
    worst = std::max(worst, nmse(logits.data() + at, expected.data() + at, n_vocab));
  return worst;
}

class FarPositions : public testing::TestWithParam<const char*> {};

void expect_exact(const std::string& path) {
  const auto model = open_file(path);
  const std::size_t n_vocab = model->shape().n_vocab;
  const std::vector<Token> tokens = random_tokens(*model);
  SlowDecoder slow(*model, static_cast<std::size_t>(size.n_prefix), static_cast<std::size_t>(size.window));
  std::vector<double> expected;
  for (const Token token : tokens) {
    const std::vector<double> logits = slow.read(token);
    expected.insert(expected.end(), logits.begin(), logits.end());
  }
  for (const std::int64_t position : far_positions) {
    const double error = worst_error(logits_from(*model, tokens, position), expected, n_vocab);
    std::printf("position %lld: largest NMSE %.2g\n", static_cast<long long>(position), error);
    EXPECT_LT(error, 1e-11) << path << " at " << position;
  }
}

TEST_P(FarPositions, are_exact_to_the_definition) {
  RUNNEL_NEEDS_SHARED(std::string("golden/") + GetParam() + ".gguf");
  expect_exact(shared(std::string("golden/") + GetParam() + ".gguf"));
}

INSTANTIATE_TEST_SUITE_P(families, FarPositions,
                         testing::Values("llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense",
                                         "gemma2-dense", "phi3-dense", "granite-dense", "falcon-dense",
                                         "bloom-dense"),
                         name_of_parameter);

TEST(FarPositionsOfTheBundledModel, are_exact_to_the_definition) { expect_exact(demo_model_f32()); }

// ---- every way to scale the rotation, on the bundled model's weights

struct Scaling {
  const char* name;
  std::function<void(GgufWriter&)> add_keys;
  std::vector<const char*> factor_tensors;
};
void PrintTo(const Scaling& scaling, std::ostream* out) { *out << scaling.name; }

void write_scaled(const std::string& path, const Scaling& scaling) {
  const auto file = GgufFile::open(demo_model_f32());
  auto writer = GgufWriter::create(path, {demo_model_f32()});
  for (const auto& [key, value] : file->metadata()) require(writer->add(key, value));
  scaling.add_keys(*writer);
  for (const GgufTensor& t : file->tensors())
    require(writer->add_tensor(t.name, *t.type, std::span(t.dims).first(t.rank)));
  constexpr std::uint64_t n_pairs = 32;
  for (const char* name : scaling.factor_tensors)
    require(writer->add_tensor(name, quant::type_info(quant::TensorType::f32), {&n_pairs, 1}));
  for (const GgufTensor& t : file->tensors()) require(writer->write({t.data, t.n_bytes}));
  for (std::size_t i = 0; i < scaling.factor_tensors.size(); ++i) {
    std::vector<float> factors;  // from 1 for the fast pairs to 8 for the slow ones; another set a tensor
    for (std::size_t pair = 0; pair < n_pairs; ++pair)
      factors.push_back(1.0f + static_cast<float>((7 - i) * pair) / n_pairs);
    require(writer->write(std::as_bytes(std::span(factors))));
  }
  require(writer->finish());
}

class ScaledRotation : public testing::TestWithParam<Scaling> {
 protected:
  Folder folder_;
  const std::string path_ = folder_.file("scaled.gguf");
};

TEST_P(ScaledRotation, is_the_same_far_from_the_start) {
  write_scaled(path_, GetParam());
  const auto model = open_file(path_);
  const std::vector<Token> tokens = random_tokens(*model);
  const std::size_t n_vocab = model->shape().n_vocab;
  const std::vector<float> near = logits_from(*model, tokens, size.n_prefix);
  EXPECT_GT(worst_error(logits_from(*open_file(demo_model_f32()), tokens, size.n_prefix), near, n_vocab),
            1e-5)
      << "the scaling changes nothing";
  for (const std::int64_t position : far_positions) {
    const double error = worst_error(logits_from(*model, tokens, position), near, n_vocab);
    std::printf("position %lld: largest NMSE %.2g\n", static_cast<long long>(position), error);
    EXPECT_LT(error, 1e-11) << position;
  }
}

void add_type(GgufWriter& writer, const char* type) {
  require(writer.add("llama.rope.scaling.type", type));
  require(writer.add("llama.rope.scaling.factor", 4.0f));
}

void add_original_context(GgufWriter& writer, std::uint32_t n) {
  require(writer.add("llama.rope.scaling.original_context_length", n));
}

INSTANTIATE_TEST_SUITE_P(kinds, ScaledRotation,
                         testing::Values(Scaling{"linear", [](GgufWriter& w) { add_type(w, "linear"); }, {}},
                                         Scaling{"llama3", [](GgufWriter&) {}, {"rope_freqs.weight"}},
                                         Scaling{"yarn",
                                                 [](GgufWriter& w) {
                                                   add_type(w, "yarn");
                                                   add_original_context(w, 128);
                                                 },
                                                 {}},
                                         Scaling{"longrope_short",
                                                 [](GgufWriter& w) {
                                                   add_type(w, "longrope");
                                                   add_original_context(w, 512);
                                                 },
                                                 {"rope_factors_long.weight", "rope_factors_short.weight"}},
                                         Scaling{"longrope_long",
                                                 [](GgufWriter& w) {
                                                   add_type(w, "longrope");
                                                   add_original_context(w,
                                                                        16);  // less than this stream's cache
                                                   require(w.add("llama.rope.scaling.attn_factor", 1.2f));
                                                 },
                                                 {"rope_factors_long.weight", "rope_factors_short.weight"}}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
