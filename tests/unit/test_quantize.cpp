// Quantised files: what is in them, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/io/packed_file.h"
#include "lib/quantize/quantize.h"
#include "tests/support/folder.h"
#include "tests/support/int8_panels.h"
#include "tests/support/model_weights.h"
#include "tests/support/paths.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t n_embd = 64, n_ff = 172, n_kv = 32, n_vocab = 37;

// A Llama of two layers with random weights; `change` may put others in.
class TinyModel {
 public:
  TinyModel() {
    add("token_embd.weight", {n_embd, n_vocab});
    add("output_norm.weight", {n_embd});
    add("output.weight", {n_embd, n_vocab});
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) add(layer + norm, {n_embd});
      add(layer + "attn_q.weight", {n_embd, n_embd});
      add(layer + "attn_k.weight", {n_embd, n_kv});
      add(layer + "attn_v.weight", {n_embd, n_kv});
      add(layer + "attn_output.weight", {n_embd, n_embd});
      add(layer + "ffn_gate.weight", {n_embd, n_ff});
      add(layer + "ffn_up.weight", {n_embd, n_ff});
      add(layer + "ffn_down.weight", {n_ff, n_embd});
    }
  }

  float& at(const std::string& name, std::size_t row, std::size_t col) {
    Tensor& t = tensors_.at(name);
    return t.values[row * t.dims[0] + col];
  }

  // A tensor that the model does not need, in front of all others.
  void add_first(const std::string& name, const std::vector<std::uint64_t>& dims) {
    add(name, dims);
    first_ = name;
  }

  void reshape(const std::string& name, const std::vector<std::uint64_t>& dims) {
    tensors_.at(name).dims = dims;
  }

  TinyModel& with_wide_alignment() {
    has_wide_alignment_ = true;
    return *this;
  }
  void write(const std::string& path) const {
    GgufBuilder file;
    file.add("general.architecture", "llama")
        .add("general.name", "tiny")
        .add("general.file_type", std::uint32_t{0});
    const auto number = [&](const char* key, std::uint64_t value) {
      file.add(std::string("llama.") + key, static_cast<std::uint32_t>(value));
    };
    number("embedding_length", n_embd);
    number("block_count", 2);
    number("context_length", 256);
    number("attention.head_count", 4);
    number("attention.head_count_kv", 2);
    number("feed_forward_length", n_ff);
    file.add("llama.attention.layer_norm_rms_epsilon", 1e-5f).add("tokenizer.ggml.model", "no_vocab");
    if (has_wide_alignment_) file.add("general.alignment", std::uint64_t{32});
    if (!first_.empty()) file.tensor(first_, tensors_.at(first_).dims, tensors_.at(first_).values);
    for (const auto& [name, tensor] : tensors_)
      if (name != first_) file.tensor(name, tensor.dims, tensor.values);
    const auto bytes = file.build();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  struct Tensor {
    std::vector<std::uint64_t> dims;
    std::vector<float> values;
  };

  void add(const std::string& name, const std::vector<std::uint64_t>& dims) {
    std::normal_distribution<float> normal;
    Tensor tensor{dims, {}};
    std::uint64_t n = 1;
    for (const std::uint64_t dim : dims) n *= dim;
    tensor.values.resize(n);
    for (float& value : tensor.values) value = normal(engine_);
    if (dims.size() == 1)
      for (float& value : tensor.values) value = 1.0f + 0.1f * value;  // gains
    tensors_[name] = tensor;
  }

  std::mt19937 engine_{7};
  std::map<std::string, Tensor> tensors_;
  std::string first_;
  bool has_wide_alignment_ = false;
};

class QuantizeTest : public testing::Test {
 protected:
  void SetUp() override { TinyModel().write(path("in")); }

  std::string path(const std::string& name) const { return folder_.file(name); }

  Result<void> run(const std::string& in, const std::string& out, const Quantization& how,
                   std::int32_t threads = 1) {
    Settings settings;
    settings.threads = threads;
    return quantize(path(in), path(out), how, settings);
  }
  void succeed(const std::string& in, const std::string& out, const std::string& type,
               std::int32_t threads = 1) {
    const Result<void> result = run(in, out, {type, {}, {}}, threads);
    ASSERT_TRUE(result) << result.error().message;
  }
  void fail(const Result<void>& result, runnel_status status, const std::vector<std::string>& naming) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().status, status) << result.error().message;
    for (const std::string& part : naming)
      EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  }
  GgufFile open(const std::string& name) {
    auto file = GgufFile::open(path(name));
    EXPECT_TRUE(file);
    return std::move(*file);
  }
  // A tensor that the model does not need holds integers.
  static constexpr const char* stray = "cls.ids";
  void write_with_integers(const std::string& name, std::uint64_t n) {
    TinyModel model;
    model.add_first(stray, {n});
    model.write(path(name));
    std::string file = contents(name);
    const std::uint32_t i32 = static_cast<std::uint32_t>(quant::TensorType::i32);
    const std::size_t at =
        file.find(stray) + std::strlen(stray) + sizeof(std::uint32_t) + sizeof(std::uint64_t);
    std::memcpy(file.data() + at, &i32, sizeof i32);  // in the place of F32, which is as long
    write_bytes(path(name), file);
  }
  std::string contents(const std::string& name) { return read_bytes(path(name)); }

  Folder folder_;
};

// The file is read; what is written has the type that the specification asks for.
TEST_F(QuantizeTest, alignment_of_another_type) {
  TinyModel().with_wide_alignment().write(path("wide"));
  ASSERT_EQ(open("wide").find("general.alignment")->type, GgufType::u64);
  for (const char* type : {"i8", "q8_0", "f16", "f32"}) {
    succeed("wide", "out", type);
    const GgufFile out = open("out");
    EXPECT_EQ(out.alignment(), type == std::string("i8") ? 64u : 32u);
    if (const GgufValue* value = out.find("general.alignment")) {
      EXPECT_EQ(value->type, GgufType::u32);
    }
  }
}

TEST_F(QuantizeTest, packs_every_matrix_to_the_nearest_code) {
  succeed("in", "out", "i8");
  const GgufFile in = open("in"), out = open("out");
  EXPECT_EQ(out.alignment(), 64u);
  EXPECT_TRUE(*is_packed(out));
  EXPECT_EQ(*packed_n_vocab(out), n_vocab);
  EXPECT_EQ(*out.get_string("general.name"), "tiny");
  EXPECT_EQ(out.find("general.file_type"), nullptr);
  std::size_t n_packed = 0;
  for (const GgufTensor& source : in.tensors()) {
    SCOPED_TRACE(std::string(source.name));
    const auto* values = reinterpret_cast<const float*>(source.data);
    if (source.rank == 1) {
      const GgufTensor* norm = out.find_tensor(source.name);
      ASSERT_TRUE(norm && norm->type->type == quant::TensorType::f32 && norm->n_bytes == source.n_bytes);
      EXPECT_EQ(std::memcmp(norm->data, source.data, source.n_bytes), 0);
      continue;
    }
    ++n_packed;
    ASSERT_TRUE(has_packed(out, source.name));
    const auto stack = find_packed(out, source.name, source.dims[1], source.dims[0]);
    ASSERT_TRUE(stack) << stack.error().message;
    const quant::PanelsI8 matrix = stack->matrix(0);
    RowI8 expected{std::vector<std::int8_t>(source.dims[0]),
                   std::vector<std::uint16_t>(matrix.shape.n_groups())};
    for (std::size_t r = 0; r < source.dims[1]; ++r) {
      quant::quantize_row_i8(expected.codes.data(), expected.scales.data(), values + r * source.dims[0],
                             source.dims[0], matrix.shape.variant);
      ASSERT_EQ(row_of(matrix, r), expected) << "row " << r;
    }
  }
  EXPECT_EQ(n_packed, 16u);
}

TEST_F(QuantizeTest, does_not_depend_on_the_number_of_threads) {
  succeed("in", "one", "i8", 1);
  succeed("in", "three", "i8", 3);
  EXPECT_EQ(contents("one"), contents("three"));
}

// The same function with a channel that a gain makes s times larger and its readers s times smaller: after
// balancing the same codes come out, but for the rounding of scales.
TEST_F(QuantizeTest, balances_injected_outliers_away) {
  TinyModel plain, injected;
  const float s = 4096;
  injected.at("blk.0.attn_norm.weight", 0, 5) *= s;
  for (const char* reader : {"attn_q", "attn_k", "attn_v"})
    for (std::size_t r = 0; r < (reader[5] == 'q' ? n_embd : n_kv); ++r)
      injected.at(std::string("blk.0.") + reader + ".weight", r, 5) /= s;
  injected.at("blk.1.ffn_norm.weight", 0, 9) /= s;
  for (const char* reader : {"ffn_gate", "ffn_up"})
    for (std::size_t r = 0; r < n_ff; ++r) injected.at(std::string("blk.1.") + reader + ".weight", r, 9) *= s;
  for (std::size_t i = 0; i < n_embd; ++i) {
    injected.at("blk.0.ffn_up.weight", 100, i) *= s;
    injected.at("blk.0.ffn_down.weight", i, 100) /= s;
  }
  injected.write(path("injected"));
  succeed("in", "out", "i8");
  succeed("injected", "balanced", "i8");

  ModelWeights original = ModelWeights::read(path("in"));
  ModelWeights a = ModelWeights::read(path("out"), &original),
               b = ModelWeights::read(path("balanced"), &original);
  // What a reader makes of a channel is gain times column; of a hidden unit, up row times down column.
  const auto effective = [](ModelWeights& m, const std::string& maker, const std::string& reader,
                            bool is_norm) {
    WeightTensor &w = *m.find(reader), &g = *m.find(maker);
    double largest = 0;
    std::vector<double> result;
    for (std::size_t r = 0; r < w.n_rows(); ++r)
      for (std::size_t c = 0; c < w.n_cols(); ++c) {
        const float made = is_norm ? g.values[c] : g.row(c)[3];
        result.push_back(static_cast<double>(w.row(r)[c]) * static_cast<double>(made));
        largest = std::max(largest, std::fabs(result.back()));
      }
    for (double& value : result) value /= largest;
    return result;
  };
  const auto compare = [&](const std::string& maker, const std::string& reader, bool is_norm) {
    const auto x = effective(a, maker, reader, is_norm), y = effective(b, maker, reader, is_norm);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(x[i] - y[i]));
    EXPECT_LT(worst, 0.04) << maker << " " << reader;
  };
  for (const char* reader : {"attn_q", "attn_k", "attn_v"})
    compare("blk.0.attn_norm.weight", std::string("blk.0.") + reader + ".weight", true);
  for (const char* reader : {"ffn_gate", "ffn_up"})
    compare("blk.1.ffn_norm.weight", std::string("blk.1.") + reader + ".weight", true);
  compare("blk.0.ffn_up.weight", "blk.0.ffn_down.weight", false);
  EXPECT_LT(b.find("blk.0.attn_norm.weight")->values[5], 10.0f);
}

TEST_F(QuantizeTest, writes_plain_files_by_the_rules_of_other_tools) {
  for (const std::string type : {"f16", "q8_0", "f32"}) {
    SCOPED_TRACE(type);
    succeed("in", type, type);
    const GgufFile out = open(type);
    const std::string matrix = type == "f16" ? "F16" : type == "q8_0" ? "Q8_0" : "F32";
    EXPECT_STREQ(out.find_tensor("blk.0.attn_q.weight")->type->name, matrix.c_str());
    // Rows of 172 are no whole blocks of 32.
    EXPECT_STREQ(out.find_tensor("blk.0.ffn_down.weight")->type->name,
                 type == "q8_0" ? "F16" : matrix.c_str());
    EXPECT_STREQ(out.find_tensor("blk.0.attn_norm.weight")->type->name, "F32");
    EXPECT_EQ(*out.get_int("general.file_type", 0, 99), type == "f16" ? 1 : type == "q8_0" ? 7 : 0);
    const GgufFile in = open("in");
    for (const GgufTensor& source : in.tensors()) {
      const GgufTensor& t = *out.find_tensor(source.name);
      std::vector<std::byte> expected(t.n_bytes);
      const std::size_t n = t.dims[0] * t.dims[1];
      t.type->encode(expected.data(), reinterpret_cast<const float*>(source.data), n);
      EXPECT_EQ(std::memcmp(t.data, expected.data(), t.n_bytes), 0) << source.name;
    }
  }
}

// As in llama.cpp's tool.
TEST_F(QuantizeTest, positions_and_routers_keep_their_type) {
  for (const char* model : {"gpt2-dense", "bloom-dense", "llama-moe"}) {
    const std::string in = std::string("golden/") + model + ".gguf";
    RUNNEL_NEEDS_SHARED(in);
    fs::copy_file(shared(in), path(model));
    for (const std::string type : {"f16", "q8_0"}) {
      succeed(model, "out", type);
      const GgufFile out = open("out");
      for (const GgufTensor& tensor : out.tensors()) {
        const bool is_kept =
            tensor.rank == 1 || tensor.name == "position_embd.weight" || !tensor.name.ends_with(".weight") ||
            tensor.name == "blk.0.ffn_gate_inp.weight" || tensor.name == "blk.1.ffn_gate_inp.weight";
        const char* expected = is_kept ? "F32" : type == "f16" ? "F16" : "Q8_0";
        EXPECT_STREQ(tensor.type->name, expected) << model << " as " << type << ": " << tensor.name;
      }
    }
  }
}

TEST_F(QuantizeTest, takes_q8_0_over_without_loss) {
  succeed("in", "q8_0", "q8_0");
  succeed("q8_0", "out", "i8");
  const GgufFile in = open("q8_0"), out = open("out");
  std::size_t n_kept = 0;
  for (const GgufTensor& source : in.tensors()) {
    if (source.type->type != quant::TensorType::q8_0) continue;
    const auto stack = find_packed(out, source.name, source.dims[1], source.dims[0]);
    ASSERT_TRUE(stack) << stack.error().message;
    ASSERT_EQ(stack->matrix(0).shape.variant, quant::VariantI8::g32);
    const std::vector<quant::BlockQ8_0> blocks = q8_0_blocks(stack->matrix(0));
    ASSERT_EQ(blocks.size() * sizeof blocks[0], source.n_bytes);
    EXPECT_EQ(std::memcmp(blocks.data(), source.data, source.n_bytes), 0) << source.name;
    ++n_kept;
  }
  EXPECT_EQ(n_kept, 14u);  // all matrices but the two of 172 columns, which are F16
}

TEST_F(QuantizeTest, refuses_to_replace_its_input) {
  const std::string before = contents("in");
  for (const char* type : {"i8", "q8_0", "f16", "f32"}) {
    fail(run("in", "in", {type, {}, {}}), RUNNEL_BAD_ARGUMENT, {"the same file"});
    fs::create_symlink(path("in"), path("link"));
    fail(run("in", "link", {type, {}, {}}), RUNNEL_BAD_ARGUMENT, {"the same file"});
    fs::remove(path("link"));
  }
  EXPECT_EQ(contents("in"), before);
}

TEST_F(QuantizeTest, names_what_cannot_be_written_or_read) {
  fail(run("in", "none/out", {"i8", {}, {}}), RUNNEL_IO, {"none/out"});
  fail(run("none", "out", {"i8", {}, {}}), RUNNEL_IO, {"none"});
  fail(run("in", "out", {"q4_0", {}, {}}), RUNNEL_BAD_ARGUMENT, {"q4_0", "i8, q8_0, f16 or f32"});
  fail(run("in", "out", {"f16", "a text", {}}), RUNNEL_BAD_ARGUMENT, {"calibration"});
  fail(run("in", "out", {"i8", "a text", {}}), RUNNEL_UNSUPPORTED, {"tokenizer"});
  succeed("in", "out", "i8");
  fail(run("out", "again", {"i8", {}, {}}), RUNNEL_UNSUPPORTED, {"packed"});
  EXPECT_EQ(folder_.n_files(), 2u);
}

TEST_F(QuantizeTest, refuses_what_is_no_model_that_runs) {
  const auto expect_refused = [&](const GgufBuilder& file, const std::string& naming) {
    const auto bytes =
        GgufBuilder(file).tensor("blk.0.ssm_conv1d.weight", {4, 32}, std::vector<float>(128)).build();
    write_bytes(path("other"), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    for (const char* type : {"i8", "q8_0", "f16", "f32"})
      fail(run("other", "out", {type, {}, {}}), RUNNEL_UNSUPPORTED, {"other", naming});
    EXPECT_EQ(folder_.n_files(), 2u);
  };
  const GgufBuilder llama = GgufBuilder().add("general.architecture", "llama");
  expect_refused(GgufBuilder(llama).add("general.type", "adapter"), "general.type is \"adapter\"");
  expect_refused(GgufBuilder().add("general.type", "imatrix"), "general.type is \"imatrix\"");
  expect_refused(GgufBuilder(llama).add("split.count", std::uint16_t{3}), "one of the 3 parts (split.count)");
  expect_refused(GgufBuilder().add("general.architecture", "mamba"), "architecture \"mamba\" is not known");
}

TEST_F(QuantizeTest, names_weights_that_are_no_numbers) {
  for (const float value : {INFINITY, -INFINITY, NAN}) {
    TinyModel model;
    model.at("blk.1.ffn_down.weight", 21, 170) = value;
    model.write(path("bad"));
    for (const char* type : {"i8", "q8_0", "f16"})
      fail(run("bad", "out", {type, {}, {}}, 2), RUNNEL_BAD_FILE,
           {"blk.1.ffn_down.weight", "row 21, column 170"});
  }
  TinyModel model;
  model.at("blk.0.attn_k.weight", 31, 63) = 7e4f;
  model.write(path("bad"));
  fail(run("bad", "out", {"f16", {}, {}}), RUNNEL_BAD_FILE,
       {"blk.0.attn_k.weight", "row 31, column 63", "F16"});
  succeed("bad", "large", "i8");
  EXPECT_EQ(folder_.n_files(), 3u);  // of the failed ones nothing is left
}

// The loader has looked at the number of a vector's elements, not at its shape.
TEST_F(QuantizeTest, names_vectors_that_do_not_fit_their_layer) {
  TinyModel model;
  for (std::size_t r = 0; r < n_embd; ++r) model.at("blk.1.attn_q.weight", r, 5) *= 4096;  // to balance
  model.reshape("blk.1.attn_norm.weight", {1, n_embd});
  model.write(path("strange"));
  fail(run("strange", "out", {"i8", {}, {}}), RUNNEL_BAD_FILE,
       {"strange", "blk.1.attn_norm.weight", "does not fit"});
}

TEST_F(QuantizeTest, can_be_stopped) {
  for (const char* type : {"i8", "f16"}) {
    double last = 0;
    const auto stop = [&](double fraction) {
      EXPECT_GE(fraction, last);
      last = fraction;
      return fraction < 0.5;
    };
    fail(run("in", "out", {type, {}, stop}), RUNNEL_STOPPED, {});
    EXPECT_GE(last, 0.5);
    EXPECT_EQ(folder_.n_files(), 1u);
    const auto go_on = [&](double fraction) {
      last = fraction;
      return true;
    };
    ASSERT_TRUE(run("in", "out", {type, {}, go_on}));
    EXPECT_EQ(last, 1.0);
    fs::remove(path("out"));
  }
}

std::string calibration_text() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "Once upon a time there was a girl named Lily. She had " + std::to_string(i) + " cats. ";
  return text;
}

// A large model takes minutes for a piece of the text: it asks after each layer.
TEST_F(QuantizeTest, can_be_stopped_while_it_reads_a_text) {
  RUNNEL_NEEDS_SHARED("models/stories260K-f32.gguf");
  fs::copy_file(shared("models/stories260K-f32.gguf"), path("stories"));
  const std::string text = calibration_text();
  std::vector<double> heard;
  ASSERT_TRUE(run("stories", "out", {"i8", text, [&](double fraction) {
                                       heard.push_back(fraction);
                                       return true;
                                     }}));
  double longest = 0;
  for (std::size_t i = 1; i < heard.size(); ++i) longest = std::max(longest, heard[i] - heard[i - 1]);
  EXPECT_LT(longest, 0.2);
  EXPECT_EQ(heard.back(), 1.0);
  fs::remove(path("out"));

  // Most of the work is reading. Who wants to stop is not asked again.
  double last = 0;
  const auto stop = [&](double fraction) {
    EXPECT_LT(last, 0.5);
    last = fraction;
    return fraction < 0.5;
  };
  fail(run("stories", "out", {"i8", text, stop}), RUNNEL_STOPPED, {});
  EXPECT_LT(last, 0.6);
  EXPECT_EQ(folder_.n_files(), 2u);
}

// A tensor of integers that the model does not need is no weight: it is copied as it is.
TEST_F(QuantizeTest, copies_tensors_that_hold_no_weights) {
  write_with_integers("integers", 12);
  for (const char* type : {"i8", "q8_0", "f16"}) {
    succeed("integers", "out", type);
    const GgufFile before = open("integers"), after = open("out");
    const GgufTensor* const copied = after.find_tensor(stray);
    ASSERT_NE(copied, nullptr) << type;
    EXPECT_EQ(copied->type->type, quant::TensorType::i32) << type;
    EXPECT_EQ(std::memcmp(copied->data, before.find_tensor(stray)->data, copied->n_bytes), 0) << type;
  }
}

// A large one in pieces.
TEST_F(QuantizeTest, can_be_stopped_while_it_copies) {
  write_with_integers("large", 4'000'000);
  for (const char* type : {"i8", "f16"}) {
    double last = 0;
    const auto stop = [&](double fraction) {
      last = fraction;
      return fraction < 0.5;
    };
    fail(run("large", "out", {type, {}, stop}), RUNNEL_STOPPED, {});
    EXPECT_LT(last, 0.8) << type;
    const auto go_on = [&](double fraction) {
      last = fraction;
      return true;
    };
    ASSERT_TRUE(run("large", "out", {type, {}, go_on}));
    EXPECT_EQ(last, 1.0);
    const GgufFile before = open("large"), after = open("out");
    const GgufTensor &from = *before.find_tensor(stray), &to = *after.find_tensor(stray);
    ASSERT_EQ(to.n_bytes, from.n_bytes);
    EXPECT_EQ(std::memcmp(to.data, from.data, from.n_bytes), 0) << type;
    fs::remove(path("out"));
  }
}

// With a text: same shapes, other codes, the same with any number of threads. That they are better is
// for int8/test_quality.cpp.
TEST_F(QuantizeTest, calibrates_with_a_text) {
  RUNNEL_NEEDS_SHARED("models/stories260K-f32.gguf");
  fs::copy_file(shared("models/stories260K-f32.gguf"), path("stories"));
  fail(run("stories", "out", {"i8", "Too short.", {}}), RUNNEL_BAD_ARGUMENT, {"tokens", "128"});
  const std::string text = calibration_text();
  succeed("stories", "plain", "i8");
  ASSERT_TRUE(run("stories", "one", {"i8", text, {}}, 1));
  ASSERT_TRUE(run("stories", "two", {"i8", text, {}}, 2));
  EXPECT_EQ(contents("one"), contents("two"));
  EXPECT_EQ(contents("one").size(), contents("plain").size());
  EXPECT_NE(contents("one"), contents("plain"));
}

}  // namespace
}  // namespace runnel::test
