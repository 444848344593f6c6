// Damaged models through everything that reads them: opened, run for a few tokens and asked to speak, or
// refused with a message; no crash, and never memory out of proportion.
#include <gtest/gtest.h>

#include "lib/session/session.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"

namespace runnel::test {
namespace {

constexpr std::size_t allowed_beyond_file = std::size_t{64} << 20;  // bytes

// Opens and uses a model as an app would. Whatever the file says, this returns: true if it was opened and has
// read tokens.
bool use(Bytes file) {
  auto model = Model::from_memory(file, {});
  if (!model) {
    EXPECT_FALSE(model.error().message.empty());
    return false;
  }
  Settings settings;
  settings.threads = 1;
  settings.window = 32;
  settings.batch = 16;
  auto session = Session::open(*model, settings);
  if (!session) return false;
  std::vector<Token> tokens = {1, 2, 3};
  if (const Tokenizer* tokenizer = (*model)->tokenizer()) {
    EXPECT_TRUE(tokenizer->encode("Once upon a time", RUNNEL_ADD_BOS, tokens));
  }
  // Ids beyond a damaged vocabulary are refused.
  const bool has_read = static_cast<bool>((*session)->feed(tokens, nullptr, nullptr));
  (void)!(*session)->generate(
      3, [](void*, const char*, std::size_t, std::int32_t) { return 0; }, nullptr);
  return has_read;
}

class ModelMutations : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = "models/stories260K-f32.gguf";
    RUNNEL_NEEDS_SHARED(path);
    auto mapped = MappedFile::open(shared(path));
    ASSERT_TRUE(mapped);
    file_ = std::move(*mapped);
    auto parsed = GgufFile::parse(file_.bytes(), path);
    ASSERT_TRUE(parsed);
    header_ = static_cast<std::size_t>(parsed->tensors().front().data - file_.bytes().data());
    for (const GgufTensor& t : parsed->tensors())
      header_ = std::min(header_, static_cast<std::size_t>(t.data - file_.bytes().data()));
  }
  Bytes bytes() const { return file_.bytes(); }

  // To be called for one damaged model after another.
  auto checker() {
    return [this](Bytes damaged, const std::string& what) {
      SCOPED_TRACE(what);
      reset_allocation_peak();
      if (use(damaged)) ++n_run_;
      EXPECT_LT(allocation_peak(), damaged.size() + allowed_beyond_file);
    };
  }

  MappedFile file_;
  std::size_t header_ = 0;  // bytes before the first tensor's data
  std::size_t n_run_ = 0;   // damaged models that were not refused
};

TEST_F(ModelMutations, cut_at_200_places) {
  for_cuts(bytes(), 200, checker());
  EXPECT_EQ(n_run_, 0u);
}

TEST_F(ModelMutations, one_thousand_changed_bytes_in_the_header) {
  for_random_bytes(bytes(), header_, 1000, checker());
  EXPECT_GT(n_run_, 200u) << "some 480 did";
}

// The part that holds sizes and counts is short: most of a header is vocabulary.
TEST_F(ModelMutations, changed_bytes_before_the_vocabulary) {
  for_random_bytes(bytes(), 700, 600, checker());
  EXPECT_GT(n_run_, 50u) << "some 140 did";
}

TEST_F(ModelMutations, infinite_and_absent_weights) {
  AlignedCopy copy(bytes());
  std::memset(copy.bytes().data() + header_, 0xff, copy.bytes().size() - header_);  // NaN everywhere
  const auto check = checker();
  check(copy.bytes(), "all weights are NaN");
  std::memset(copy.bytes().data() + header_, 0, copy.bytes().size() - header_);
  check(copy.bytes(), "all weights are zero");
  EXPECT_EQ(n_run_, 2u);
}

}  // namespace
}  // namespace runnel::test
