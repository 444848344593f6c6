// The GGUF writer: its files against those of an encoder of the tests' own, what it refuses, and what it
// leaves behind.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lib/io/gguf_writer.h"
#include "tests/support/folder.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

using quant::TensorType;
using quant::type_info;
using Dims = std::vector<std::uint64_t>;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void expect_error(const Result<void>& result, const std::string& part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, RUNNEL_BAD_ARGUMENT) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos)
      << "no '" << part << "' in: " << result.error().message;
}

class GgufWriting : public testing::Test {
 protected:
  GgufWriter create(const std::vector<std::string>& inputs = {}) {
    auto writer = GgufWriter::create(path_, inputs);
    EXPECT_TRUE(writer) << writer.error().message;
    return std::move(*writer);
  }

  Folder folder_;
  std::string path_ = folder_.file("out.gguf");
};

constexpr auto u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr auto i64_min = std::numeric_limits<std::int64_t>::min();

GgufBuilder reference() {
  return GgufBuilder()
      .add("u8", std::uint8_t{255})
      .add("i8", std::int8_t{-128})
      .add("u16", std::uint16_t{65535})
      .add("i16", std::int16_t{-2})
      .add("u32", std::uint32_t{3})
      .add("i32", std::int32_t{-4})
      .add("u64", u64_max)
      .add("i64", i64_min)
      .add("f32", 1.5F)
      .add("f64", 0.1)
      .add("bool", true)
      .add("string", std::string("a\0b", 3))
      .add_array("strings", std::vector<std::string>{"x", "", "yz"})
      .add_array("floats", std::vector<float>{1, 2})
      .add_array("ints", std::vector<std::int32_t>{-1, 2})
      .tensor("w", {3, 2}, {1, 2, 3, 4, 5, 6})
      .tensor("blk.0.q", 8, {32, 1, 2}, std::string(68, 'q'))
      .tensor("v", {8}, std::vector<float>(8, 0.5F));
}

void expect_same_but_for_padding(const std::string& file, const std::vector<std::byte>& expected) {
  const std::string head(reinterpret_cast<const char*>(expected.data()), expected.size());
  ASSERT_GE(file.size(), head.size());
  EXPECT_EQ(file.substr(0, head.size()), head);
  EXPECT_EQ(file.substr(head.size()), std::string((32 - head.size() % 32) % 32, '\0'));
}

TEST_F(GgufWriting, GivesTheBytesOfTheSpecification) {
  auto writer = create();
  ASSERT_TRUE(writer.add("u8", std::uint8_t{255}));
  ASSERT_TRUE(writer.add("i8", std::int8_t{-128}));
  ASSERT_TRUE(writer.add("u16", std::uint16_t{65535}));
  ASSERT_TRUE(writer.add("i16", std::int16_t{-2}));
  ASSERT_TRUE(writer.add("u32", std::uint32_t{3}));
  ASSERT_TRUE(writer.add("i32", std::int32_t{-4}));
  ASSERT_TRUE(writer.add("u64", u64_max));
  ASSERT_TRUE(writer.add("i64", i64_min));
  ASSERT_TRUE(writer.add("f32", 1.5F));
  ASSERT_TRUE(writer.add("f64", 0.1));
  ASSERT_TRUE(writer.add("bool", true));
  ASSERT_TRUE(writer.add("string", std::string_view("a\0b", 3)));
  ASSERT_TRUE(writer.add("strings", std::vector<std::string_view>{"x", "", "yz"}));
  ASSERT_TRUE(writer.add("floats", std::vector<float>{1, 2}));
  ASSERT_TRUE(writer.add("ints", std::vector<std::int32_t>{-1, 2}));
  ASSERT_TRUE(writer.add_tensor("w", type_info(TensorType::f32), Dims{3, 2}));
  ASSERT_TRUE(writer.add_tensor("blk.0.q", type_info(TensorType::q8_0), Dims{32, 1, 2}));
  ASSERT_TRUE(writer.add_tensor("v", type_info(TensorType::f32), Dims{8}));
  const std::vector<float> w{1, 2, 3, 4, 5, 6};
  const std::vector<float> v(8, 0.5F);
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(w).first(2))));
  ASSERT_TRUE(writer.write({}));
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(w).subspan(2))));
  for (int i = 0; i < 68; ++i) ASSERT_TRUE(writer.write(as_bytes("q")));
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(v))));
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(writer.finish());

  expect_same_but_for_padding(read_bytes(path_), reference().build());
  EXPECT_EQ(folder_.n_files(), 1U);
  const auto file = GgufFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().size(), 15U);
  EXPECT_EQ(file->tensors().size(), 3U);
}

TEST_F(GgufWriting, CopiesWhatAReaderGives) {
  const auto bytes = reference()
                         .add_array("u8s", std::vector<std::uint8_t>{1, 2, 3})
                         .add_array("bools", std::vector<bool>{true, false})
                         .add_array("f64s", std::vector<double>{0.5})
                         .add_array("none", std::vector<std::string>{})
                         .build();
  const auto source = GgufFile::parse(bytes, "source");
  ASSERT_TRUE(source) << source.error().message;
  auto writer = create();
  for (const auto& [key, value] : source->metadata()) ASSERT_TRUE(writer.add(key, value)) << key;
  for (const GgufTensor& tensor : source->tensors()) {
    ASSERT_TRUE(writer.add_tensor(tensor.name, *tensor.type, std::span(tensor.dims).first(tensor.rank)));
  }
  for (const GgufTensor& tensor : source->tensors()) ASSERT_TRUE(writer.write({tensor.data, tensor.n_bytes}));
  ASSERT_TRUE(writer.finish());
  expect_same_but_for_padding(read_bytes(path_), bytes);
}

TEST_F(GgufWriting, FollowsAnAlignmentOfItsOwn) {
  auto writer = create();
  ASSERT_TRUE(writer.add_tensor("a", type_info(TensorType::i8), Dims{1}));
  ASSERT_TRUE(writer.add_tensor("b", type_info(TensorType::i8), Dims{1}));
  ASSERT_TRUE(writer.add("general.alignment", std::uint32_t{4096}));
  ASSERT_TRUE(writer.write(as_bytes("a")));
  ASSERT_TRUE(writer.write(as_bytes("b")));
  ASSERT_TRUE(writer.finish());
  const auto file = GgufFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[1].data - file->tensors()[0].data, 4096);
  EXPECT_EQ(file->tensors()[1].data[0], std::byte{'b'});
  for (const std::uint32_t bad : {0U, 4U, 48U, 131072U}) {
    expect_error(create().add("general.alignment", bad), "'general.alignment'");
  }
  expect_error(create().add("general.alignment", std::uint64_t{64}), "u32");
}

TEST_F(GgufWriting, WritesFilesWithoutTensors) {
  auto writer = create();
  ASSERT_TRUE(writer.add("k", "v"));
  ASSERT_TRUE(writer.finish());
  const auto file = GgufFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file->get_string("k"), "v");
}

TEST_F(GgufWriting, RefusesMisuse) {
  const auto& f32 = type_info(TensorType::f32);
  auto writer = create();
  ASSERT_TRUE(writer.add("k", 1.0F));
  expect_error(writer.add("k", 2.0F), "key 'k': it is there already");
  expect_error(writer.add("", 2.0F), "1 to 65535");
  expect_error(writer.add(std::string(65536, 'k'), 2.0F), "1 to 65535");
  ASSERT_TRUE(writer.add_tensor("w", f32, Dims{2}));
  expect_error(writer.add_tensor("w", f32, Dims{2}), "tensor 'w': it is there already");
  expect_error(writer.add_tensor("", f32, Dims{2}), "1 to 64");
  expect_error(writer.add_tensor(std::string(65, 't'), f32, Dims{2}), "1 to 64");
  expect_error(writer.add_tensor("no dims", f32, Dims{}), "1 to 4");
  expect_error(writer.add_tensor("five", f32, Dims{1, 1, 1, 1, 1}), "1 to 4");
  expect_error(writer.add_tensor("zero", f32, Dims{1, 0}), "1 or more");
  expect_error(writer.add_tensor("rows", type_info(TensorType::q8_0), Dims{33}), "whole blocks");
  expect_error(writer.add_tensor("huge", f32, Dims{u64_max, 2}), "2^62");
  expect_error(writer.finish(), "tensor 'w': expected 8 more bytes");
}

TEST_F(GgufWriting, RefusesDataThatDoesNotFit) {
  auto writer = create();
  ASSERT_TRUE(writer.add_tensor("w", type_info(TensorType::i8), Dims{4}));
  ASSERT_TRUE(writer.write(as_bytes("abc")));
  expect_error(writer.write(as_bytes("de")), "tensor 'w': expected 1 more bytes at most, found 2");
  expect_error(writer.add("late", true), "before the first data");
  expect_error(writer.add_tensor("late", type_info(TensorType::i8), Dims{4}), "before the first data");
  ASSERT_TRUE(writer.write(as_bytes("d")));
  expect_error(writer.write(as_bytes("e")), "0 more bytes");
}

TEST_F(GgufWriting, LeavesNothingBehindWhenAbandoned) {
  std::ofstream(path_) << "older";
  {
    auto writer = create();
    ASSERT_TRUE(writer.add_tensor("w", type_info(TensorType::i8), Dims{4}));
    ASSERT_TRUE(writer.write(as_bytes("abc")));
    EXPECT_EQ(folder_.n_files(), 2U);
  }
  EXPECT_EQ(folder_.n_files(), 1U);
  EXPECT_EQ(read_bytes(path_), "older");
}

TEST_F(GgufWriting, ReplacesAnOlderFileAndKeepsItsPermissions) {
  const auto target = folder_.path() / "target.gguf";
  std::ofstream(target) << "older";
  ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
  std::filesystem::create_symlink(target, path_);
  auto writer = create();
  ASSERT_TRUE(writer.add("k", "v"));
  ASSERT_TRUE(writer.finish());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_TRUE(GgufFile::open(target.string()));
  EXPECT_EQ(std::filesystem::status(target).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(GgufWriting, NeverOverwritesItsInput) {
  const std::string input = folder_.file("in.gguf");
  std::ofstream(input) << "input";
  const auto expect_refused = [&](const std::string& target) {
    const auto writer = GgufWriter::create(target, {"/nonexistent", input});
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().status, RUNNEL_BAD_ARGUMENT);
    EXPECT_EQ(writer.error().message,
              target + ": cannot be written: it is the same file as " + input + ", which is read");
  };
  expect_refused(input);
  expect_refused(folder_.file("./in.gguf"));
  std::filesystem::create_symlink(input, folder_.file("link"));
  expect_refused(folder_.file("link"));
  std::filesystem::create_hard_link(input, folder_.file("hard"));
  expect_refused(folder_.file("hard"));
  EXPECT_EQ(read_bytes(input), "input");
}

TEST_F(GgufWriting, SaysWhyAFileCannotBeCreated) {
  const auto missing = GgufWriter::create(folder_.file("none/out.gguf"), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status, RUNNEL_IO);
  EXPECT_NE(missing.error().message.find("No such file or directory"), std::string::npos)
      << missing.error().message;
  for (const std::string& target : {folder_.path().string(), std::string("/dev/null")}) {
    const auto writer = GgufWriter::create(target, {});
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().message, target + ": cannot be written: it exists and is not a regular file");
  }
}

TEST_F(GgufWriting, SaysWhyAFileCannotBeWritten) {
  constexpr rlim_t most = 4096;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{most, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Result<void> result;
  {
    auto writer = create();
    ASSERT_TRUE(writer.add_tensor("w", type_info(TensorType::i8), Dims{3 * most}));
    result = writer.write(as_bytes(std::string(2 * most, 'w')));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, RUNNEL_IO);
  EXPECT_EQ(result.error().message, path_ + ": cannot be written (after 4096 bytes): File too large");
  EXPECT_EQ(folder_.n_files(), 0U);
}

}  // namespace
}  // namespace runnel::test
