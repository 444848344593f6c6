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

// Opens and uses a model as an app would. Whatever the file says, this returns.
void use(Bytes file) {
  auto model = Model::from_memory(file, {});
  if (!model) {
    EXPECT_FALSE(model.error().message.empty());
    return;
  }
  Settings settings;
  settings.threads = 1;
  settings.window = 32;
  settings.batch = 16;
  auto session = Session::open(*model, settings);
  if (!session) return;
  std::vector<Token> tokens = {1, 2, 3};
  if (const Tokenizer* tokenizer = (*model)->tokenizer()) {
    EXPECT_TRUE(tokenizer->encode("Once upon a time", RUNNEL_ADD_BOS, tokens));
  }
  (void)!(*session)->feed(tokens, nullptr, nullptr);  // ids beyond a damaged vocabulary are refused
  (void)!(*session)->generate(
      3, [](void*, const char*, std::size_t, std::int32_t) { return 0; }, nullptr);
}

void check(Bytes damaged, const std::string& what) {
  SCOPED_TRACE(what);
  reset_allocation_peak();
  use(damaged);
  EXPECT_LT(allocation_peak(), damaged.size() + allowed_beyond_file);
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

  MappedFile file_;
  std::size_t header_ = 0;  // bytes before the first tensor's data
};

TEST_F(ModelMutations, cut_at_200_places) { for_cuts(bytes(), 200, check); }

TEST_F(ModelMutations, one_thousand_changed_bytes_in_the_header) {
  for_random_bytes(bytes(), header_, 1000, check);
}

// The part that holds sizes and counts is short: most of a header is vocabulary.
TEST_F(ModelMutations, changed_bytes_before_the_vocabulary) { for_random_bytes(bytes(), 700, 600, check); }

TEST_F(ModelMutations, infinite_and_absent_weights) {
  AlignedCopy copy(bytes());
  std::memset(copy.bytes().data() + header_, 0xff, copy.bytes().size() - header_);  // NaN everywhere
  check(copy.bytes(), "all weights are NaN");
  std::memset(copy.bytes().data() + header_, 0, copy.bytes().size() - header_);
  check(copy.bytes(), "all weights are zero");
}

}  // namespace
}  // namespace runnel::test
