// The GGUF reader: what it reads, and what it says about files it refuses.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lib/io/gguf.h"
#include "lib/text/printable.h"
#include "tests/support/folder.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

using Strings = std::vector<std::string>;
using Views = std::vector<std::string_view>;

Result<GgufFile> parse(const std::vector<std::byte>& bytes) { return GgufFile::parse(bytes, "x.gguf"); }

// Expects a refusal whose message begins with the file's name and holds all of `parts`.
template <class T>
void expect_error(const Result<T>& result, runnel_status status, const Strings& parts) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, status) << result.error().message;
  EXPECT_TRUE(result.error().message.starts_with("x.gguf: ")) << result.error().message;
  for (const std::string& part : parts) {
    EXPECT_NE(result.error().message.find(part), std::string::npos)
        << "no '" << part << "' in: " << result.error().message;
  }
}

std::string raw(std::initializer_list<std::uint64_t> words) {
  std::string bytes;
  for (const std::uint64_t word : words) put(bytes, word);
  return bytes;
}

// An array's head: type of the elements and their number.
std::string array_head(std::uint32_t type_id, std::uint64_t count) {
  std::string bytes;
  put(bytes, type_id);
  put(bytes, count);
  return bytes;
}

// ---- what is read ----

class GgufVersions : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Gguf, GgufVersions, testing::Values(2U, 3U));

TEST_P(GgufVersions, ReadsScalarsOfAllTypes) {
  const auto bytes = GgufBuilder()
                         .version(GetParam())
                         .add("u8", std::uint8_t{255})
                         .add("i8", std::int8_t{-128})
                         .add("u16", std::uint16_t{65535})
                         .add("i16", std::int16_t{-32768})
                         .add("u32", std::uint32_t{4294967295U})
                         .add("i32", std::int32_t{-2147483647})
                         .add("u64", std::uint64_t{1} << 62)
                         .add("i64", std::numeric_limits<std::int64_t>::min())
                         .add("f32", 1.5F)
                         .add("f64", -0.1)
                         .add("yes", true)
                         .add("no", false)
                         .add("string", std::string("a\0b", 3))
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().size(), 13U);
  EXPECT_EQ(file->n_bytes(), bytes.size());
  constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  const auto integer = [&](const char* key) { return *file->get_int(key, min, max); };
  EXPECT_EQ(integer("u8"), 255);
  EXPECT_EQ(integer("i8"), -128);
  EXPECT_EQ(integer("u16"), 65535);
  EXPECT_EQ(integer("i16"), -32768);
  EXPECT_EQ(integer("u32"), 4294967295);
  EXPECT_EQ(integer("i32"), -2147483647);
  EXPECT_EQ(integer("u64"), std::int64_t{1} << 62);
  EXPECT_EQ(integer("i64"), min);
  EXPECT_EQ(*file->get_real("f32"), 1.5);
  EXPECT_EQ(*file->get_real("f64"), -0.1);
  EXPECT_EQ(*file->get_real("i16"), -32768.0);
  EXPECT_TRUE(*file->get_bool("yes"));
  EXPECT_FALSE(*file->get_bool("no"));
  EXPECT_EQ(*file->get_string("string"), std::string_view("a\0b", 3));
}

TEST_P(GgufVersions, ReadsArraysOfAllTypes) {
  const auto bytes = GgufBuilder()
                         .version(GetParam())
                         .add_array("u8", std::vector<std::uint8_t>{1, 255})
                         .add_array("i8", std::vector<std::int8_t>{-1, 1})
                         .add_array("u16", std::vector<std::uint16_t>{1, 65535})
                         .add_array("i16", std::vector<std::int16_t>{-1, 1})
                         .add_array("u32", std::vector<std::uint32_t>{1, 4294967295U})
                         .add_array("i32", std::vector<std::int32_t>{-1, 1})
                         .add_array("u64", std::vector<std::uint64_t>{1, 2})
                         .add_array("i64", std::vector<std::int64_t>{-1, 1})
                         .add_array("f32", std::vector<float>{0.5F, -INFINITY})
                         .add_array("f64", std::vector<double>{0.25, 2})
                         .add_array("bool", std::vector<bool>{true, false})
                         .add_array("strings", Strings{"a", "", "longer"})
                         .add_array("none", Strings{})
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  using Ints = std::vector<std::int64_t>;
  using Floats = std::vector<float>;
  EXPECT_EQ(*file->get_ints("u8"), (Ints{1, 255}));
  EXPECT_EQ(*file->get_ints("i8"), (Ints{-1, 1}));
  EXPECT_EQ(*file->get_ints("u16"), (Ints{1, 65535}));
  EXPECT_EQ(*file->get_ints("i16"), (Ints{-1, 1}));
  EXPECT_EQ(*file->get_ints("u32"), (Ints{1, 4294967295}));
  EXPECT_EQ(*file->get_ints("i32"), (Ints{-1, 1}));
  EXPECT_EQ(*file->get_ints("u64"), (Ints{1, 2}));
  EXPECT_EQ(*file->get_ints("i64"), (Ints{-1, 1}));
  EXPECT_EQ(*file->get_ints("bool"), (Ints{1, 0}));
  EXPECT_EQ(*file->get_floats("f32"), (Floats{0.5F, -INFINITY}));
  EXPECT_EQ(*file->get_floats("f64"), (Floats{0.25F, 2}));
  EXPECT_EQ(*file->get_floats("u8"), (Floats{1, 255}));
  EXPECT_EQ(*file->get_strings("strings"), (Views{"a", "", "longer"}));
  EXPECT_EQ(*file->get_strings("none"), Views{});
}

TEST(Gguf, ReadsTensors) {
  const std::string blocks(2 * 2 * 34, '\7');
  const auto bytes = GgufBuilder()
                         .add("general.architecture", "llama")
                         .tensor("b", {3}, {1, 2, 3})
                         .tensor("a", 8, {64, 2}, blocks)
                         .tensor("c", 24, {1, 2, 3, 4}, std::string(24, 'c'))
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3U);
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->alignment(), 32U);
  const GgufTensor* b = file->find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->rank, 1U);
  EXPECT_EQ(b->dims, (std::array<std::uint64_t, 4>{3, 1, 1, 1}));
  EXPECT_EQ(b->n_bytes, 12U);
  float values[3];
  std::memcpy(values, b->data, sizeof values);
  EXPECT_EQ(values[2], 3.0F);
  const GgufTensor* a = file->find_tensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->type, quant::type_info(8));
  EXPECT_EQ(a->n_bytes, blocks.size());
  EXPECT_EQ(std::memcmp(a->data, blocks.data(), blocks.size()), 0);
  EXPECT_EQ((a->data - bytes.data()) % 32, 0);
  EXPECT_EQ(file->find_tensor("c")->dims, (std::array<std::uint64_t, 4>{1, 2, 3, 4}));
  EXPECT_EQ(file->find_tensor("d"), nullptr);
  EXPECT_EQ(file->find("d"), nullptr);
}

TEST(Gguf, ReadsDataAtTheFilesAlignment) {
  for (const std::uint32_t alignment : {8U, 64U, 65536U}) {
    const auto bytes = GgufBuilder().alignment(alignment).tensor("a", {1}, {1}).tensor("b", {1}, {2}).build();
    const auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->tensors()[1].data - file->tensors()[0].data, alignment);
    float value = 0;
    std::memcpy(&value, file->tensors()[1].data, sizeof value);
    EXPECT_EQ(value, 2.0F);
  }
}

TEST(Gguf, ReadsFilesWithoutTensors) {
  const auto file = parse(GgufBuilder().add("general.architecture", "llama").build());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_TRUE(parse(GgufBuilder().build()));
}

// ---- what is refused: the file ----

TEST(Gguf, SaysWhatAnotherFileIs) {
  const auto expect_kind = [](std::string_view start, const std::string& kind) {
    std::vector<std::byte> bytes(start.size());
    std::memcpy(bytes.data(), start.data(), start.size());
    expect_error(parse(bytes), RUNNEL_BAD_FILE, {"at offset 0", "not a GGUF file", "'GGUF'", kind});
  };
  expect_kind("Once upon a time there was a file.\n", "'Once'; it looks like text");
  expect_kind("GGU", "'GGU'; it looks like text");
  expect_kind(std::string_view("PK\x03\x04\x14\x00", 6), "zip archive or PyTorch");
  expect_kind("\x80\x02}q\x01", "PyTorch");
  expect_kind(std::string_view("\x40\x01\0\0\0\0\0\0{\"a\":", 13), "safetensors");
  expect_kind("version https://git-lfs.github.com/spec/v1\n", "Git LFS");
  expect_kind(std::string_view("tjgg\3\0\0\0", 8), "GGJT");
  expect_kind(std::string_view("\x7f"
                               "ELF\2\0",
                               6),
              "found '\\x7fELF'");
  expect_error(parse({}), RUNNEL_BAD_FILE, {"empty"});
}

TEST(Gguf, RefusesOtherVersions) {
  expect_error(parse(GgufBuilder().version(1).build()), RUNNEL_UNSUPPORTED,
               {"version 2 or 3", "found 1", "offset 4"});
  expect_error(parse(GgufBuilder().version(4).build()), RUNNEL_UNSUPPORTED, {"version 2 or 3", "found 4"});
  expect_error(parse(GgufBuilder().version(0x03000000).build()), RUNNEL_UNSUPPORTED, {"big-endian"});
}

TEST(Gguf, RefusesACutHeader) {
  auto bytes = GgufBuilder().build();
  bytes.resize(20);
  expect_error(parse(bytes), RUNNEL_BAD_FILE, {"header", "24 bytes", "found 20"});
}

TEST(Gguf, RefusesCountsBeyondTheFile) {
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  expect_error(parse(GgufBuilder().claim_metadata(huge).build()), RUNNEL_BAD_FILE,
               {"offset 16", "metadata entries", "room for", "found 18446744073709551615"});
  expect_error(parse(GgufBuilder().claim_tensors(huge).build()), RUNNEL_BAD_FILE,
               {"offset 8", "tensors", "up to 0", "found 18446744073709551615"});
  expect_error(parse(GgufBuilder().add("k", true).claim_metadata(2).build()), RUNNEL_BAD_FILE,
               {"metadata entries up to 1", "found 2"});
}

TEST(Gguf, RefusesMisalignedMemory) {
  const auto bytes = GgufBuilder().add("k", true).build();
  expect_error(GgufFile::parse(std::span(bytes).subspan(1), "x.gguf"), RUNNEL_BAD_ARGUMENT, {"aligned"});
}

// ---- what is refused: metadata ----

TEST(Gguf, RefusesBadKeys) {
  expect_error(parse(GgufBuilder().add("", "text").add("k", true).build()), RUNNEL_BAD_FILE,
               {"metadata entry 1 of 2", "offset 24", "1 to 65535", "found 0"});
  expect_error(parse(GgufBuilder().add(std::string(65536, 'k'), true).build()), RUNNEL_BAD_FILE,
               {"metadata entry 1 of 1", "1 to 65535", "found 65536"});
  EXPECT_TRUE(parse(GgufBuilder().add(std::string(65535, 'k'), true).build()));
  expect_error(parse(GgufBuilder().add("some.key", true).add("b", true).add("some.key", false).build()),
               RUNNEL_BAD_FILE, {"key 'some.key'", "once", "again (first at offset 44)"});
}

TEST(Gguf, RefusesBadValues) {
  const auto expect_bad = [](std::uint32_t type_id, const std::string& value, runnel_status status,
                             Strings parts) {
    parts.push_back("key 'a.key' at offset ");
    expect_error(parse(GgufBuilder().add_raw("a.key", type_id, value).build()), status, parts);
  };
  expect_bad(13, raw({0}), RUNNEL_BAD_FILE, {"type of 0 to 12", "found 13"});
  expect_bad(7, "\2", RUNNEL_BAD_FILE, {"boolean", "found 2"});
  expect_bad(10, "1234", RUNNEL_BAD_FILE, {"1 values of type u64", "room for 0"});
  expect_bad(8, raw({100}) + "short", RUNNEL_BAD_FILE,
             {"string 1 of 1", "expected 100 bytes", "found 13 bytes"});
  expect_bad(8, raw({std::numeric_limits<std::uint64_t>::max()}), RUNNEL_BAD_FILE,
             {"expected 18446744073709551615"});
  expect_bad(9, array_head(13, 1) + "x", RUNNEL_BAD_FILE, {"type 0 to 12", "found 13"});
  expect_bad(9, array_head(9, 1) + array_head(0, 1) + "x", RUNNEL_UNSUPPORTED, {"array of arrays"});
  expect_bad(9, array_head(4, std::uint64_t{1} << 62) + "1234", RUNNEL_BAD_FILE,
             {"4611686018427387904 values of type u32", "room for 1"});
  expect_bad(9, array_head(8, std::uint64_t{1} << 61) + raw({0}), RUNNEL_BAD_FILE,
             {"2305843009213693952 strings", "room for 1"});
  expect_bad(9, array_head(8, 2) + raw({3}) + "abc" + raw({1}), RUNNEL_BAD_FILE,
             {"string 2 of 2", "expected 1 bytes"});
  expect_bad(9, array_head(7, 2) + "\1\2", RUNNEL_BAD_FILE, {"boolean", "found 2"});
  expect_bad(9, array_head(0, 0).substr(0, 8), RUNNEL_BAD_FILE, {"length of an array"});
}

TEST(Gguf, RefusesBadAlignments) {
  for (const std::uint32_t alignment : {0U, 1U, 4U, 131072U}) {
    expect_error(parse(GgufBuilder().add("general.alignment", alignment).build()), RUNNEL_BAD_FILE,
                 {"key 'general.alignment'", "8 to 65536", "found u32 " + std::to_string(alignment)});
  }
  expect_error(parse(GgufBuilder().add("general.alignment", 48U).build()), RUNNEL_BAD_FILE,
               {"key 'general.alignment'", "power of two", "found 48"});
  expect_error(parse(GgufBuilder().add("general.alignment", "32").build()), RUNNEL_BAD_FILE,
               {"key 'general.alignment'", "found string '32'"});
}

// ---- what is refused: tensors ----

TEST(Gguf, RefusesBadTensorNames) {
  expect_error(parse(GgufBuilder().tensor("", {1}, {1}).build()), RUNNEL_BAD_FILE,
               {"tensor 1 of 1", "1 to 64 bytes", "found 0"});
  expect_error(parse(GgufBuilder().tensor(std::string(65, 't'), {1}, {1}).build()), RUNNEL_BAD_FILE,
               {"tensor 1 of 1", "1 to 64 bytes", "found 65"});
  EXPECT_TRUE(parse(GgufBuilder().tensor(std::string(64, 't'), {1}, {1}).build()));
  expect_error(parse(GgufBuilder().tensor("w", {1}, {1}).tensor("v", {1}, {1}).tensor("w", {1}, {1}).build()),
               RUNNEL_BAD_FILE, {"tensor 'w'", "tensors 1 and 3"});
}

TEST(Gguf, RefusesBadShapes) {
  const auto expect_bad = [](std::uint32_t type_id, const std::vector<std::uint64_t>& dims,
                             const Strings& parts) {
    expect_error(parse(GgufBuilder().tensor("blk.0.w", type_id, dims, std::string(64, '\0')).build()),
                 RUNNEL_BAD_FILE, {"tensor 'blk.0.w' at offset ", parts[0], parts[1]});
  };
  const std::uint64_t huge = std::uint64_t{1} << 32;
  expect_bad(0, {}, {"1 to 4 dimensions", "found 0"});
  expect_bad(0, {1, 1, 1, 1, 1}, {"1 to 4 dimensions", "found 5"});
  expect_bad(0, {4, 0}, {"dimension 1: expected 1 or more", "found 0"});
  expect_bad(8, {33}, {"Q8_0 blocks of 32", "found rows of 33"});
  expect_bad(0, {huge, huge}, {"less than 2^63", "found [4294967296, 4294967296, 1, 1] of F32"});
  expect_bad(24, {huge, huge / 2}, {"less than 2^63", "I8"});          // 2^63 exactly
  expect_bad(24, {huge, huge, huge, huge}, {"less than 2^63", "I8"});  // 2^128, 0 when it wraps
  expect_bad(0, {std::uint64_t{1} << 62}, {"less than 2^63", "F32"});  // 2^64 bytes
  expect_bad(0, {std::uint64_t{1} << 60},
             {"4611686018427387904 bytes", "cut short"});  // allowed, but not there
}

TEST(Gguf, RefusesOtherTypesByName) {
  expect_error(parse(GgufBuilder().tensor("blk.0.w", 12, {256}, std::string(144, '\0')).build()),
               RUNNEL_UNSUPPORTED, {"tensor 'blk.0.w' at offset ", "F32, F16, Q8_0", "found Q4_K (12)"});
  expect_error(parse(GgufBuilder().tensor("blk.0.w", 999, {256}, std::string(144, '\0')).build()),
               RUNNEL_UNSUPPORTED, {"tensor 'blk.0.w' at offset ", "found an unknown one (999)"});
}

TEST(Gguf, TakesOtherTypesWhereNobodyReadsThem) {
  const auto open = [](std::uint32_t type_id, std::uint64_t n, std::size_t n_bytes) {
    const auto bytes = GgufBuilder().tensor("blk.0.w", type_id, {n}, std::string(n_bytes, '\0')).build();
    return GgufFile::parse(bytes, "x.gguf", UnreadTypes::taken);
  };
  const auto file = open(12, 512, 288);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_STREQ(file->tensors()[0].type->name, "Q4_K");
  EXPECT_EQ(file->tensors()[0].n_bytes, 288U);
  expect_error(open(12, 512, 287), RUNNEL_BAD_FILE, {"tensor 'blk.0.w'", "expected 288 bytes", "cut short"});
  expect_error(open(12, 255, 288), RUNNEL_BAD_FILE, {"Q4_K blocks of 256", "found rows of 255"});
  expect_error(open(999, 256, 144), RUNNEL_UNSUPPORTED, {"found an unknown one (999)"});
}

TEST(Gguf, RefusesDataOutsideTheFile) {
  auto bytes =
      GgufBuilder().tensor("a", {8}, std::vector<float>(8)).tensor("b", {8}, std::vector<float>(8)).build();
  const std::size_t size = bytes.size();
  EXPECT_TRUE(parse(bytes));
  bytes.pop_back();
  expect_error(parse(bytes), RUNNEL_BAD_FILE,
               {"tensor 'b'", "expected 32 bytes of data that end at " + std::to_string(size),
                "found a file of " + std::to_string(size - 1) + " bytes"});
  const std::string data(32, '\0');
  expect_error(parse(GgufBuilder().tensor("a", 0, {8}, data, 32).build()), RUNNEL_BAD_FILE,
               {"tensor 'a'", "cut short"});
  expect_error(parse(GgufBuilder().tensor("a", 0, {8}, data, ~std::uint64_t{31}).build()), RUNNEL_BAD_FILE,
               {"tensor 'a'", "end at over 2^64"});
  expect_error(parse(GgufBuilder().tensor("a", 0, {8}, data, 4).build()), RUNNEL_BAD_FILE,
               {"tensor 'a'", "multiple of 32", "found 4"});
}

TEST(Gguf, RefusesSharedData) {
  const std::string data(64, '\0');
  const auto build = [&](std::uint64_t offset_of_b) {
    return GgufBuilder().tensor("a", 0, {16}, data).tensor("b", 0, {8}, data, offset_of_b).build();
  };
  EXPECT_TRUE(parse(build(64)));
  expect_error(parse(build(32)), RUNNEL_BAD_FILE,
               {"tensor 'b'", "offset 32 inside tensor 'a'", "ends at 64"});
  expect_error(parse(build(0)), RUNNEL_BAD_FILE, {"tensor 'b'", "offset 0 inside tensor 'a'"});
}

// ---- typed access ----

TEST(Gguf, NamesWhatAnAccessExpectedAndFound) {
  const auto bytes = GgufBuilder()
                         .add("int", std::int32_t{-5})
                         .add("large", std::numeric_limits<std::uint64_t>::max())
                         .add("nan", std::numeric_limits<double>::quiet_NaN())
                         .add("text", "some\ntext")
                         .add_array("ints", std::vector<std::int32_t>{1, 2})
                         .add_array("nans", std::vector<float>{1, NAN})
                         .add_array("doubles", std::vector<double>{1e300})
                         .add_array("larges", std::vector<std::uint64_t>{~std::uint64_t{0}})
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  expect_error(file->get_int("none", 0, 1), RUNNEL_BAD_FILE, {"'none'", "does not have"});
  expect_error(file->get_int("int", 0, 9), RUNNEL_BAD_FILE, {"'int' at offset ", "0 to 9", "found i32 -5"});
  expect_error(file->get_int("int", -9, -6), RUNNEL_BAD_FILE, {"found i32 -5"});
  expect_error(file->get_int("large", 0, 9), RUNNEL_BAD_FILE, {"found u64 18446744073709551615"});
  expect_error(file->get_int("text", 0, 9), RUNNEL_BAD_FILE, {"found string 'some\\ntext'"});
  expect_error(file->get_int("ints", 0, 9), RUNNEL_BAD_FILE, {"found an array of 2 of type i32"});
  expect_error(file->get_real("nan"), RUNNEL_BAD_FILE, {"finite number", "found f64 nan"});
  expect_error(file->get_real("text"), RUNNEL_BAD_FILE, {"finite number"});
  expect_error(file->get_bool("int"), RUNNEL_BAD_FILE, {"expected a boolean"});
  expect_error(file->get_string("int"), RUNNEL_BAD_FILE, {"expected a string"});
  expect_error(file->get_strings("text"), RUNNEL_BAD_FILE, {"expected an array of strings"});
  expect_error(file->get_strings("ints"), RUNNEL_BAD_FILE, {"expected an array of strings"});
  expect_error(file->get_floats("text"), RUNNEL_BAD_FILE, {"expected an array of numbers"});
  expect_error(file->get_floats("nans"), RUNNEL_BAD_FILE, {"element 1 (nan)"});
  expect_error(file->get_floats("doubles"), RUNNEL_BAD_FILE, {"element 0 (1e+300)"});
  expect_error(file->get_ints("nans"), RUNNEL_BAD_FILE, {"array of integers"});
  expect_error(file->get_ints("larges"), RUNNEL_BAD_FILE, {"integers below 2^63"});
  expect_error(file->get_ints("int"), RUNNEL_BAD_FILE, {"array of integers"});
}

TEST(Gguf, FallsBackOnlyWhereAKeyIsAbsent) {
  const auto bytes = GgufBuilder().add("k", std::uint32_t{3}).build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file->get_int("none", 0, 1, 77), 77);
  EXPECT_EQ(*file->get_real("none", 0.5), 0.5);
  EXPECT_EQ(*file->get_bool("none", true), true);
  EXPECT_EQ(*file->get_string("none", "absent"), "absent");
  EXPECT_EQ(*file->get_int("k", 0, 9, 77), 3);
  EXPECT_EQ(*file->get_real("k", 0.5), 3.0);
  expect_error(file->get_int("k", 0, 1, 77), RUNNEL_BAD_FILE, {"'k'", "found u32 3"});
  expect_error(file->get_bool("k", true), RUNNEL_BAD_FILE, {"expected a boolean"});
  expect_error(file->get_string("k", "absent"), RUNNEL_BAD_FILE, {"expected a string"});
}

// ---- text ----

TEST(Gguf, ShowsValuesAsText) {
  const auto bytes = GgufBuilder()
                         .add("f", 1e-5F)
                         .add("d", 0.1)
                         .add("b", true)
                         .add("u", std::numeric_limits<std::uint64_t>::max())
                         .add_array("few", std::vector<std::int32_t>{1, -2, 3})
                         .add_array("many", std::vector<std::int32_t>(1000, 7))
                         .add_array("texts", Strings{"a", "b\n"})
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const auto text = [&](const char* key) { return to_text(*file->find(key), 20); };
  EXPECT_EQ(text("f"), "1e-05");
  EXPECT_EQ(text("d"), "0.1");
  EXPECT_EQ(text("b"), "true");
  EXPECT_EQ(text("u"), "18446744073709551615");
  EXPECT_EQ(text("few"), "[1, -2, 3]");
  EXPECT_EQ(text("many"), "[7, 7, 7, 7, 7, 7, 7, ...] (1000)");
  EXPECT_EQ(text("texts"), "['a', 'b\\n']");
}

TEST(Gguf, MakesStringsPrintable) {
  EXPECT_EQ(printable("plain \xe2\x82\xac"), "plain \xe2\x82\xac");
  EXPECT_EQ(printable(std::string_view("\0\x1b[31m\x7f\t", 8)), "\\x00\\x1b[31m\\x7f\\t");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // a control character of two bytes
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\xe2\x82\xac", 4), "ab...");  // no half characters
}

// ---- files ----

class GgufOnDisk : public testing::Test {
 protected:
  void expect_open_error(const std::filesystem::path& path, runnel_status status, const std::string& part) {
    const auto file = GgufFile::open(path.string());
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().status, status);
    EXPECT_TRUE(file.error().message.starts_with(path.string() + ": ")) << file.error().message;
    EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
  }

  Folder folder_;
};

TEST_F(GgufOnDisk, IsMappedAndMoves) {
  const auto bytes = GgufBuilder().add("k", "v").tensor("w", {1}, {5}).build();
  const auto path = folder_.path() / "x.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  auto file = GgufFile::open(path.string());
  ASSERT_TRUE(file) << file.error().message;
  const GgufFile moved = std::move(*file);
  std::filesystem::remove(path);  // a mapping outlives the name
  EXPECT_EQ(*moved.get_string("k"), "v");
  float value = 0;
  std::memcpy(&value, moved.find_tensor("w")->data, sizeof value);
  EXPECT_EQ(value, 5.0F);
}

TEST_F(GgufOnDisk, RefusesWhatIsNoReadableFile) {
  expect_open_error(folder_.path() / "none", RUNNEL_IO, "No such file");
  expect_open_error(folder_.path(), RUNNEL_IO, "found a directory");
  expect_open_error("/dev/zero", RUNNEL_IO, "found a device");
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  expect_open_error(folder_.path() / "pipe", RUNNEL_IO, "found a pipe");
  std::ofstream(folder_.path() / "empty").flush();
  expect_open_error(folder_.path() / "empty", RUNNEL_BAD_FILE, "empty");
}

TEST_F(GgufOnDisk, RefusesWhatItMayNotRead) {
  const auto path = folder_.path() / "secret";
  std::ofstream(path) << "GGUF";
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const bool is_root = ::geteuid() == 0;  // root may read everything
  constexpr uid_t nobody = 65534;
  if (is_root) {
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  expect_open_error(path, RUNNEL_IO, "Permission denied");
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}

}  // namespace
}  // namespace runnel::test
