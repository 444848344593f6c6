// What every model of a family has: a file that lacks some of it, or has it under a damaged name, is refused
// and not computed without.
#include <gtest/gtest.h>

#include <span>

#include "lib/model.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/model_weights.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"

namespace runnel::test {
namespace {

Result<std::shared_ptr<const Model>> model_of(const std::string& bytes) {
  return Model::from_memory(std::as_bytes(std::span(bytes)), {}, "file");
}

// The file with the last letter of a key or name changed, where it stands with its length in front.
std::string with_damaged(std::string bytes, const std::string& name) {
  std::string encoded(sizeof(std::uint64_t), '\0');
  encoded[0] = static_cast<char>(name.size());
  encoded += name;
  const std::size_t at = bytes.find(encoded);
  EXPECT_NE(at, std::string::npos) << name;
  if (at == std::string::npos) return bytes;
  char& last = bytes[at + encoded.size() - 1];
  last = static_cast<char>(last ^ 1);
  return bytes;
}

void expect_refused(const Result<std::shared_ptr<const Model>>& model, const std::string& name) {
  ASSERT_FALSE(model) << name;
  EXPECT_NE(model.error().message.find(name.substr(0, name.size() - 1)), std::string::npos)
      << model.error().message;
}

// Models of the family have it or not, and are computed accordingly.
bool may_be_missing(const Family& family, const std::string& name) {
  const bool is_bias = name.ends_with(".bias") && name.find("norm") == std::string::npos;
  return name == "output.weight" || name == "rope_freqs.weight" || name.starts_with("cls.") ||
         name.ends_with("scale") || (is_bias && !family.biases);
}

// The name in the message: where there is no matrix of q, k and v in one, three are expected.
std::string named(const std::string& name) {
  const std::size_t at = name.find("attn_qkv.weight");
  return at == std::string::npos ? name : name.substr(0, at) + "attn_q.weight";
}

class MissingParts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = std::string("golden/") + GetParam() + ".gguf";
    RUNNEL_NEEDS_SHARED(name);
    path_ = shared(name);
  }

  std::string path_;
  Folder folder_;
};

TEST_P(MissingParts, tensors) {
  const ModelWeights whole = ModelWeights::read(path_);
  const std::string without = folder_.file("without");
  const Family& family = (*Model::open(path_, {}))->family();
  for (const std::string& name : whole.order) {
    if (name.find("attn_norm_2") != std::string::npos) continue;  // see below
    ModelWeights part = whole;
    part.tensors.erase(name);
    part.write(without, path_);
    const auto model = Model::open(without, {});
    if (may_be_missing(family, name))
      EXPECT_TRUE(model) << model.error().message;
    else
      expect_refused(model, named(name));
  }
}

TEST_P(MissingParts, tensors_with_a_damaged_name) {
  const std::string whole = read_bytes(path_);
  ASSERT_TRUE(model_of(whole));
  for (const std::string& name : ModelWeights::read(path_).order) {
    if (name.starts_with("cls.")) continue;  // and so it does when it is damaged
    expect_refused(model_of(with_damaged(whole, name)), named(name));
  }
}

TEST_P(MissingParts, keys) {
  const std::string whole = read_bytes(path_);
  const auto model = model_of(whole);
  ASSERT_TRUE(model);
  const Family& family = (*model)->family();
  std::vector<std::string> names = {
      "block_count",
      "embedding_length",
      "context_length",
      "attention.head_count",
      "feed_forward_length",
      family.norm == Norm::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"};
  if (family.divides_logits) names.push_back("logit_scale");
  for (const std::string& name : names) {
    const std::string key = std::string(family.name) + "." + name;
    expect_refused(model_of(with_damaged(whole, key)), key);
  }
}

// Falcon 40B has a norm for each side of a layer, Falcon 7B one for both.
TEST(MissingPart, second_norms_of_some_layers) {
  RUNNEL_NEEDS_SHARED("golden/falcon-dense.gguf");
  const std::string path = shared("golden/falcon-dense.gguf");
  const Folder folder;
  const auto open_without_second_norm = [&](std::initializer_list<const char*> layers) {
    ModelWeights weights = ModelWeights::read(path);
    for (const std::string layer : layers)
      for (const char* last : {".weight", ".bias"}) weights.tensors.erase(layer + "attn_norm_2" + last);
    weights.write(folder.file("some"), path);
    return Model::open(folder.file("some"), {});
  };
  expect_refused(open_without_second_norm({"blk.0."}), "blk.1.attn_norm_2.weight");
  expect_refused(open_without_second_norm({"blk.1."}), "blk.1.attn_norm_2.weight");
  EXPECT_TRUE(open_without_second_norm({"blk.0.", "blk.1."}));
}

INSTANTIATE_TEST_SUITE_P(Golden, MissingParts, testing::ValuesIn(golden_models), name_of_parameter);

}  // namespace
}  // namespace runnel::test
