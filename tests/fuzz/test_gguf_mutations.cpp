// Damaged GGUF files: each is refused with a message or read consistently, never with memory out of
// proportion.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lib/io/gguf.h"
#include "lib/token/tokenizer.h"
#include "tests/fuzz/check_gguf.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

constexpr std::size_t allowed_beyond_file = std::size_t{64} << 20;  // bytes

// Checks one damaged file after another and counts them.
class Checker {
 public:
  void operator()(Bytes damaged, const std::string& what) {
    ++n_checked_;
    reset_allocation_peak();
    EXPECT_EQ(check_gguf(damaged), "") << what;
    const std::size_t allocated = allocation_peak();
    EXPECT_LT(allocated, damaged.size() + allowed_beyond_file) << what;
    if (GgufFile::parse(damaged, "damaged.gguf")) ++n_read_;
  }
  std::size_t n_checked() const { return n_checked_; }
  std::size_t n_read() const { return n_read_; }

 private:
  std::size_t n_checked_ = 0;
  std::size_t n_read_ = 0;
};

// A file of all value types, small enough for every byte to be changed.
std::vector<std::byte> small_file(std::uint32_t version) {
  return GgufBuilder()
      .version(version)
      .alignment(32)
      .add("a.u8", std::uint8_t{200})
      .add("a.i16", std::int16_t{-3})
      .add("a.u64", std::uint64_t{1} << 40)
      .add("a.f32", 0.5F)
      .add("a.f64", 0.25)
      .add("a.bool", true)
      .add("a.string", "text")
      .add_array("b.strings", std::vector<std::string>{"one", "", "three"})
      .add_array("b.i32", std::vector<std::int32_t>{1, -2, 3})
      .add_array("b.f32", std::vector<float>{1.0F, -2.0F})
      .add_array("b.bool", std::vector<bool>{true, false})
      .tensor("w.f32", {4, 3}, std::vector<float>(12, 1.0F))
      .tensor("w.q8_0", 8, {32, 2}, std::string(68, '\1'))
      .tensor("w.f16", 1, {2, 2, 2, 2}, std::string(32, '\0'))
      .build();
}

std::size_t header_bytes(const GgufFile& file, Bytes bytes) {
  std::size_t size = bytes.size();
  for (const GgufTensor& tensor : file.tensors()) {
    size = std::min(size, static_cast<std::size_t>(tensor.data - bytes.data()));
  }
  return size;
}

class SmallFile : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Versions, SmallFile, testing::Values(2U, 3U));

TEST_P(SmallFile, IsReadWhole) {
  const auto bytes = small_file(GetParam());
  EXPECT_EQ(check_gguf(bytes), "");
  EXPECT_TRUE(GgufFile::parse(bytes, "small.gguf"));
}

TEST_P(SmallFile, IsRefusedWhenCutAnywhere) {
  const auto bytes = small_file(GetParam());
  Checker check;
  for_cuts(bytes, bytes.size(), std::ref(check));
  EXPECT_EQ(check.n_checked(), bytes.size());
  EXPECT_EQ(check.n_read(), 0U);
}

TEST_P(SmallFile, SurvivesEveryChangedByte) {
  const auto bytes = small_file(GetParam());
  Checker check;
  for_every_byte(bytes, bytes.size(), std::ref(check));
  EXPECT_GE(check.n_checked(), 8 * bytes.size());
  EXPECT_LT(check.n_read(), check.n_checked());
}

TEST_P(SmallFile, SurvivesHugeNumbersEverywhere) {
  const auto bytes = small_file(GetParam());
  Checker check;
  for_every_word(bytes, bytes.size(), std::ref(check));
  EXPECT_GE(check.n_checked(), 5 * (bytes.size() - 7));
}

// The smallest entries a file can have, as many as it may: the indices must stay in proportion.
TEST(Gguf, BoundsMemoryForManyEntries) {
  GgufBuilder builder;
  for (std::uint64_t i = 0; i < gguf_max_entries; ++i) {
    builder.add(std::to_string(i), std::uint8_t{0});
    builder.tensor(std::to_string(i), 24, {1}, "x");
  }
  const auto bytes = builder.build();
  reset_allocation_peak();
  const auto file = GgufFile::parse(bytes, "many.gguf");
  EXPECT_LT(allocation_peak(), bytes.size() + allowed_beyond_file);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), gguf_max_entries);
}

// Tables of one byte an element, which are converted to more: not before it is known that each is a token's.
TEST(Gguf, BoundsMemoryForTablesOfTokens) {
  for (const char* table : {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"}) {
    const auto bytes = GgufBuilder()
                           .add("tokenizer.ggml.model", "llama")
                           .add_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
                           .add_array(table, std::vector<std::uint8_t>(std::size_t{1} << 20))
                           .build();
    const auto file = GgufFile::parse(bytes, "long.gguf");
    ASSERT_TRUE(file) << file.error().message;
    reset_allocation_peak();
    const auto tokenizer = Tokenizer::load(*file);
    EXPECT_LT(allocation_peak(), std::size_t{1} << 16) << table;
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().message, std::string("long.gguf: ") + table +
                                             " has 1048576 elements, expected one for each of the 2 tokens");
  }
}

class RealFile : public testing::Test {
 protected:
  void SetUp() override {
    RUNNEL_NEEDS_SHARED("models/stories260K-f32.gguf");
    const std::string path = shared("models/stories260K-f32.gguf");
    auto mapped = MappedFile::open(path);
    ASSERT_TRUE(mapped) << mapped.error().message;
    mapped_ = std::move(*mapped);
    const auto file = GgufFile::parse(mapped_.bytes(), path);
    ASSERT_TRUE(file) << file.error().message;
    n_header_ = header_bytes(*file, mapped_.bytes());
    ASSERT_LT(n_header_, mapped_.bytes().size());
  }

  MappedFile mapped_;
  std::size_t n_header_ = 0;
  Checker check_;
};

TEST_F(RealFile, IsRefusedWhenCut) {
  for_cuts(mapped_.bytes(), 200, std::ref(check_));
  EXPECT_EQ(check_.n_checked(), 200U);
  EXPECT_EQ(check_.n_read(), 0U);
}

TEST_F(RealFile, IsRefusedWhenItsHeaderIsCut) {
  for_cuts(mapped_.bytes().first(n_header_), 200, std::ref(check_));
  EXPECT_EQ(check_.n_read(), 0U);
}

TEST_F(RealFile, SurvivesChangedBytesInItsHeader) {
  for_random_bytes(mapped_.bytes(), n_header_, 1000, std::ref(check_));
  EXPECT_EQ(check_.n_checked(), 1000U);
}

}  // namespace
}  // namespace runnel::test
