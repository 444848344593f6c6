// Models with random weights: their shapes against what was published, their bytes, and that they run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/session/session.h"
#include "lib/speed_limits.h"
#include "lib/synth/random_weights.h"
#include "lib/synth/synthetic_file.h"
#include "lib/synth/tensors.h"
#include "tests/support/folder.h"

namespace runnel::test {
namespace {

using quant::TensorType;

// One small shape for each kind of model, with sizes that are no powers of two.
std::vector<SynthShape> tiny_shapes() {
  const SynthShape llama{.name = "tiny",
                         .architecture = "llama",
                         .n_vocab = 300,
                         .n_embd = 96,
                         .n_layer = 2,
                         .n_head = 6,
                         .n_head_kv = 2,
                         .head_dim = 16,
                         .n_ff = 160,
                         .n_ctx_train = 256};
  std::vector<SynthShape> shapes(5, llama);
  shapes[0].rope_factor = 32.0f;
  shapes[1].architecture = "qwen2";
  shapes[1].qkv_bias = shapes[1].tied = true;
  shapes[2].architecture = "qwen3";
  shapes[2].head_norms = shapes[2].tied = true;
  shapes[2].head_dim = 32;
  shapes[3].architecture = "gemma2";
  shapes[3].post_norms = shapes[3].tied = true;
  shapes[3].sliding_window = 64;
  shapes[3].attn_soft_cap = 50.0f;
  shapes[3].logit_soft_cap = 30.0f;
  shapes[4].architecture = "phi3";
  shapes[4].fused = true;
  return shapes;
}

Synthesis synthesis(const SynthShape& shape, TensorType type, std::uint64_t seed = 1) {
  return {shape, &quant::type_info(type), seed, {}};
}

Settings on_threads(std::int32_t threads) {
  Settings settings;
  settings.threads = threads;
  return settings;
}

template <class T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

std::shared_ptr<const Model> make(const SynthShape& shape, TensorType type, std::uint64_t seed = 1) {
  return value_of(make_synthetic(synthesis(shape, type, seed), on_threads(2)));
}

std::string file_of(const Synthesis& what, std::int32_t threads) {
  const Folder folder;
  const std::string path = folder.file("synth.gguf");
  const Result<void> written = write_synthetic(what, path, on_threads(threads));
  EXPECT_TRUE(written) << written.error().message;
  return read_bytes(path);
}

// As the models' authors give them; of stories260K and where no number is given, counted in the files.
TEST(SynthShapes, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, std::uint64_t> published = {
      {"stories260k", 260'032},        {"smollm2-135m", 134'515'008},   {"smollm2-360m", 361'821'120},
      {"qwen2.5-0.5b", 494'032'768},   {"qwen3-0.6b", 596'049'920},     {"tinyllama-1.1b", 1'100'048'384},
      {"llama-3.2-1b", 1'235'814'400}, {"qwen2.5-1.5b", 1'543'714'304}, {"qwen3-1.7b", 1'720'574'976},
      {"gemma-2-2b", 2'614'341'888},   {"llama-3.2-3b", 3'212'749'824}, {"phi-3-mini", 3'821'079'552},
      {"mistral-7b", 7'241'732'096},   {"llama-3.1-8b", 8'030'261'248},
  };
  ASSERT_EQ(published.size(), n_synth_shapes());
  for (std::size_t i = 0; i < n_synth_shapes(); ++i) {
    std::uint64_t n = 0;
    for (const SynthTensor& tensor : synth_tensors(synth_shape(i))) {
      if (tensor.values.empty()) n += tensor.n_elements();
    }
    EXPECT_EQ(n, published.at(synth_shape(i).name)) << synth_shape(i).name;
  }
}

TEST(SynthShapes, AreOfFamiliesThatRun) {
  for (std::size_t i = 0; i < n_synth_shapes(); ++i) {
    const SynthShape& shape = synth_shape(i);
    EXPECT_NE(find_family(shape.architecture), nullptr) << shape.name;
    EXPECT_EQ(find_synth_shape(shape.name), &shape);
    EXPECT_GE(shape.n_vocab, 260u) << shape.name;  // what the made-up tokenizer needs
    EXPECT_EQ(shape.n_head % shape.n_head_kv, 0u) << shape.name;
  }
  EXPECT_EQ(find_synth_shape("abacus"), nullptr);
}

TEST(RandomWeights, DependOnNothingButSeedNameAndPlace) {
  const RandomTensor random(7, "blk.0.attn_q.weight", 0.0f, 1.0f);
  std::vector<float> all(1001), part(501);
  random.fill(all.data(), 0, all.size());
  random.fill(part.data(), 500, part.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 500));

  const auto first_of = [](std::uint64_t seed, const char* name) {
    std::vector<float> numbers(8);
    RandomTensor(seed, name, 0.0f, 1.0f).fill(numbers.data(), 0, numbers.size());
    return numbers;
  };
  EXPECT_NE(first_of(7, "a"), first_of(8, "a"));
  EXPECT_NE(first_of(7, "a"), first_of(7, "b"));
}

TEST(RandomWeights, AreUniform) {
  std::vector<float> numbers(1 << 20);
  RandomTensor(1, "x", 0.5f, 2.0f).fill(numbers.data(), 0, numbers.size());
  const double n = static_cast<double>(numbers.size());
  double sum = 0.0, squares = 0.0, neighbours = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double centred = static_cast<double>(numbers[i]) - 0.5;
    sum += centred;
    squares += centred * centred;
    if (i > 0) neighbours += centred * (static_cast<double>(numbers[i - 1]) - 0.5);
  }
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 4.0 / 3.0, 0.01);  // variance of a uniform distribution: spread^2 / 3
  EXPECT_NEAR(neighbours / n, 0.0, 0.01);
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  EXPECT_GE(*least, -1.5f);
  EXPECT_LE(*most, 2.5f);
}

TEST(SyntheticFile, HasTheSameBytesAtAnyNumberOfThreads) {
  const SynthShape shape = *find_synth_shape("stories260k");
  const std::string one = file_of(synthesis(shape, TensorType::f16), 1);
  EXPECT_EQ(file_of(synthesis(shape, TensorType::f16), 2), one);
  EXPECT_EQ(file_of(synthesis(shape, TensorType::f16), 5), one);
  EXPECT_NE(file_of(synthesis(shape, TensorType::f16, 2), 1), one);
}

TEST(SyntheticFile, InMemoryIsTheOneOnDisk) {
  const SynthShape shape = tiny_shapes()[3];
  const std::string on_disk = file_of(synthesis(shape, TensorType::q8_0), 2);
  const auto model = make(shape, TensorType::q8_0);
  ASSERT_EQ(model->file().n_bytes(), on_disk.size());
  const auto parsed = GgufFile::parse(std::as_bytes(std::span(on_disk)), "disk");
  ASSERT_TRUE(parsed) << parsed.error().message;
  for (const GgufTensor& tensor : parsed->tensors()) {
    const GgufTensor* same = model->file().find_tensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    ASSERT_EQ(same->n_bytes, tensor.n_bytes) << tensor.name;
    EXPECT_TRUE(std::equal(tensor.data, tensor.data + tensor.n_bytes, same->data)) << tensor.name;
  }
}

// The numbers are those of the f32 file, rounded; vectors stay f32.
TEST(SyntheticFile, HasTheTypeThatWasAskedFor) {
  const SynthShape shape = tiny_shapes()[0];
  const auto exact = make(shape, TensorType::f32);
  for (const TensorType type : {TensorType::f16, TensorType::bf16, TensorType::q8_0}) {
    const auto model = make(shape, type);
    for (const GgufTensor& tensor : model->file().tensors()) {
      EXPECT_EQ(tensor.type->type, tensor.rank > 1 ? type : TensorType::f32) << tensor.name;
    }
    const char* name = "blk.1.ffn_down.weight";
    const GgufTensor* tensor = model->file().find_tensor(name);
    const auto* expected = reinterpret_cast<const float*>(exact->file().find_tensor(name)->data);
    std::vector<float> decoded(shape.n_ff * shape.n_embd);
    tensor->type->decode(decoded.data(), tensor->data, decoded.size());
    const float spread = std::sqrt(3.0f / static_cast<float>(shape.n_ff));
    for (std::size_t i = 0; i < decoded.size(); ++i)
      ASSERT_NEAR(decoded[i], expected[i], spread / 200.0f) << i;
  }
}

TEST(SyntheticFile, RowsWithoutWholeBlocksAreF16) {
  const auto model = make(*find_synth_shape("stories260k"), TensorType::q8_0);
  EXPECT_EQ(model->file().find_tensor("blk.0.ffn_up.weight")->type->type, TensorType::q8_0);   // rows of 64
  EXPECT_EQ(model->file().find_tensor("blk.0.ffn_down.weight")->type->type, TensorType::f16);  // rows of 172
}

TEST(SyntheticModel, OfEveryKindRunsAndStaysSane) {
  for (const SynthShape& shape : tiny_shapes()) {
    SCOPED_TRACE(shape.architecture);
    const auto model = make(shape, TensorType::f32);
    EXPECT_EQ(model->architecture(), shape.architecture);
    EXPECT_EQ(model->shape().n_vocab, shape.n_vocab);
    ASSERT_NE(model->tokenizer(), nullptr);
    EXPECT_EQ(model->tokenizer()->n_vocab(), shape.n_vocab);
    auto session = value_of(Session::open(model, on_threads(2)));
    const std::vector<Token> tokens = {1, 42, 7, 290, 0, 133};
    ASSERT_TRUE(session->feed(tokens, nullptr, nullptr));
    double squares = 0.0;
    for (std::size_t i = 0; i < shape.n_vocab; ++i) {
      const double logit = static_cast<double>(session->logits()[i]);
      ASSERT_TRUE(std::isfinite(logit)) << i;
      squares += logit * logit;
    }
    const double rms = std::sqrt(squares / shape.n_vocab);
    EXPECT_GT(rms, 0.1);
    EXPECT_LT(rms, 10.0);
  }
}

TEST(SyntheticModel, ItsTokenizerKnowsEveryByte) {
  const auto model = make(tiny_shapes()[0], TensorType::f16);
  const std::string text = "Grüße, \xf0\x9f\x99\x82 \x01\n";
  std::vector<Token> tokens;
  ASSERT_TRUE(model->tokenizer()->encode(text, 0, tokens));
  EXPECT_EQ(model->tokenizer()->decode_all(tokens.data(), tokens.size(), false), text);
}

// llama.cpp refuses a model whose name says phi-3 and whose tokenizer lacks some of Phi 3's tokens.
TEST(SyntheticModel, IsNamedSoThatOthersLoadIt) {
  SynthShape shape = tiny_shapes()[4];
  ASSERT_STREQ(shape.architecture, "phi3");
  shape.name = "phi-3-mini";
  EXPECT_EQ(*make(shape, TensorType::f16)->file().get_string("general.name"),
            "phi 3 mini with random weights");
}

TEST(SyntheticModel, OutlivesWhatMadeIt) {
  auto model = make(tiny_shapes()[0], TensorType::f16);
  auto session = value_of(Session::open(model, on_threads(1)));
  model.reset();
  const Token token = 1;
  EXPECT_TRUE(session->feed({&token, 1}, nullptr, nullptr));
}

TEST(Synthesis, IsFoundByNameOrSaysWhatThereIs) {
  const Result<Synthesis> found = find_synthesis("qwen3-0.6b", "bf16", 9);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_STREQ(found->shape.name, "qwen3-0.6b");
  EXPECT_EQ(found->type->type, TensorType::bf16);
  const Result<Synthesis> no_shape = find_synthesis("abacus\n", "f16", 0);
  ASSERT_FALSE(no_shape);
  EXPECT_NE(no_shape.error().message.find("tinyllama-1.1b"), std::string::npos) << no_shape.error().message;
  const Result<Synthesis> no_type = find_synthesis("qwen3-0.6b", "i32", 0);
  ASSERT_FALSE(no_type);
  EXPECT_NE(no_type.error().message.find("q8_0"), std::string::npos) << no_type.error().message;
}

TEST(Synthesis, StopsOnRequestAndLeavesNothing) {
  const Folder folder;
  Synthesis what = synthesis(tiny_shapes()[0], TensorType::f16);
  int n_calls = 0;
  double last = 0.0;
  what.on_progress = [&](double fraction) {
    EXPECT_GT(fraction, last);
    last = fraction;
    return ++n_calls < 3;
  };
  const Result<void> written = write_synthetic(what, folder.file("stopped.gguf"), on_threads(1));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().status, RUNNEL_STOPPED);
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(folder.n_files(), 0u);

  what.on_progress = [&](double fraction) {
    last = fraction;
    return true;
  };
  EXPECT_TRUE(make_synthetic(what, on_threads(1)));
  EXPECT_EQ(last, 1.0);
}

// ---- what files of a size leave out

// Gemma 2 27B: query_pre_attn_scalar is n_embd / n_head; of the other sizes head_dim.
TEST(Gemma2, ScalesAttentionByTheSizeOfTheModel) {
  SynthShape shape = tiny_shapes()[3];
  shape.head_dim = 64;
  EXPECT_FLOAT_EQ(make(shape, TensorType::f16)->shape().attention_scale, 1.0f / 8);
  shape.n_layer = 46;
  EXPECT_FLOAT_EQ(make(shape, TensorType::f16)->shape().attention_scale, 1.0f / 4);  // 96 / 6
}

// ---- what a token costs

TEST(SpeedLimits, CountBytesAndMultiplyAdds) {
  SynthShape shape = tiny_shapes()[0];
  const std::uint64_t keys_and_values = std::uint64_t{96} * (32 + 32),
                      attention = 2 * std::uint64_t{96} * 96 + keys_and_values,
                      ffn = std::uint64_t{3} * 96 * 160;
  const std::uint64_t norms = 2 * 2 * 96 + 96, frequencies = 8;
  const auto untied = make(shape, TensorType::f16);
  EXPECT_EQ(prompt_multiply_adds(*untied), attention + ffn + keys_and_values);  // the last layer's
  EXPECT_EQ(decode_bytes(*untied), 2 * 2 * (attention + ffn) + 2 * 96 * 300 + 4 * (norms + frequencies));
  shape.tied = true;  // the same bytes, under another name
  EXPECT_EQ(decode_bytes(*make(shape, TensorType::f16)), decode_bytes(*untied));
}

TEST(SpeedLimits, AreMeasured) {
  const auto model = make(*find_synth_shape("stories260k"), TensorType::f16);
  const Result<double> read = measure_read(*model, on_threads(1));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_GT(*read, 1e7);
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::i8, Arithmetic::i16}) {
    const Result<double> peak = measure_peak(arithmetic, on_threads(1));
    ASSERT_TRUE(peak) << peak.error().message;
    EXPECT_GT(*peak, 1e7);
    EXPECT_LT(*peak, 1e13);  // a loop that the compiler did away with would be beyond
  }
  Settings plain = on_threads(1);
  plain.isa = "scalar";
  EXPECT_EQ(*prompt_arithmetic(*model, plain), Arithmetic::f32);
  EXPECT_EQ(*prompt_arithmetic(*make(*find_synth_shape("stories260k"), TensorType::q8_0), plain),
            Arithmetic::i8);
  Settings unknown = on_threads(1);
  unknown.isa = "abacus";
  EXPECT_FALSE(measure_peak(Arithmetic::f32, unknown));
  EXPECT_FALSE(measure_read(*model, unknown));
  EXPECT_FALSE(prompt_arithmetic(*model, unknown));
}

}  // namespace
}  // namespace runnel::test
