// Packed matrices in a file: what is refused.
#include <gtest/gtest.h>

#include "lib/io/packed_file.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

constexpr std::uint32_t i8 = 24, f16 = 1, bf16 = 30, f32 = 0;
constexpr std::uint64_t n_rows = 20, n_cols = 130;  // 2 panels, 33 steps, 2 groups of 128

struct Parts {
  std::uint32_t codes_type = i8, scales_type = bf16;
  std::vector<std::uint64_t> codes_dims = {132, 32}, scales_dims = {16, 2, 2};
  std::string scales_name = "a.weight_scales";
  std::uint16_t scale = 0x3f80;
  std::uint32_t version = 1;
};

std::uint64_t product(const std::vector<std::uint64_t>& dims) {
  std::uint64_t n = 1;
  for (const std::uint64_t d : dims) n *= d;
  return n;
}

class PackedFileTest : public testing::Test {
 protected:
  const GgufFile& file(const Parts& parts) {
    std::string scales;
    for (std::uint64_t i = 0; i < product(parts.scales_dims); ++i)
      if (parts.scales_type == f32)
        put(scales, 1.0f);
      else
        put(scales, static_cast<std::uint16_t>(i == 5 ? parts.scale : 0x3f80));
    bytes_ = GgufBuilder()
                 .alignment(64)
                 .add("runnel.packed.version", parts.version)
                 .add("runnel.packed.n_vocab", std::uint32_t{20})
                 .tensor("a.weight", parts.codes_type, parts.codes_dims,
                         std::string(product(parts.codes_dims) * (parts.codes_type == f32 ? 4 : 1), '\1'))
                 .tensor(parts.scales_name, parts.scales_type, parts.scales_dims, scales)
                 .build();
    file_.emplace(std::move(*GgufFile::parse(bytes_, "test")));
    return *file_;
  }

  void refused(const Parts& parts, const std::string& naming, std::size_t n_matrix = 0) {
    const auto found = find_packed(file(parts), "a.weight", n_rows, n_cols, n_matrix);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().status, RUNNEL_BAD_FILE);
    EXPECT_NE(found.error().message.find(naming), std::string::npos) << found.error().message;
  }

  std::vector<std::byte> bytes_;
  std::optional<GgufFile> file_;
};

TEST_F(PackedFileTest, is_found) {
  const GgufFile& f = file({});
  EXPECT_TRUE(*is_packed(f));
  EXPECT_TRUE(has_packed(f, "a.weight"));
  EXPECT_FALSE(has_packed(f, "a.weight_scales"));
  EXPECT_FALSE(has_packed(f, "b.weight"));
  EXPECT_EQ(*packed_n_vocab(f), 20u);
  const auto found = find_packed(f, "a.weight", n_rows, n_cols);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->n_matrix, 1u);
  EXPECT_EQ(found->first.shape.variant, quant::VariantI8::g128);
  EXPECT_EQ(static_cast<const void*>(found->first.codes), f.find_tensor("a.weight")->data);
  EXPECT_EQ(static_cast<const void*>(found->first.scales), f.find_tensor("a.weight_scales")->data);
}

TEST_F(PackedFileTest, knows_stacks_and_both_variants) {
  Parts parts;
  parts.codes_dims = {132, 32, 3};
  parts.scales_type = f16;
  parts.scales_dims = {16, 5, 2, 3};
  const auto found = find_packed(file(parts), "a.weight", n_rows, n_cols, 3);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->n_matrix, 3u);
  EXPECT_EQ(found->first.shape.variant, quant::VariantI8::g32);
  EXPECT_EQ(found->matrix(2).codes - found->first.codes, 2 * 132 * 32);
  EXPECT_EQ(found->matrix(2).scales - found->first.scales, 2 * 16 * 5 * 2);
}

TEST_F(PackedFileTest, refuses_other_shapes_and_types) {
  Parts parts;
  parts.codes_dims = {130, 32};
  refused(parts, "[132, 32]");
  parts = {};
  parts.codes_dims = {132, 20};
  refused(parts, "[132, 20]");
  parts = {};
  parts.scales_dims = {16, 1, 2};
  refused(parts, "[16, 2, 2]");
  parts = {};
  parts.scales_dims = {16, 2, 4};
  refused(parts, "a.weight_scales");
  parts = {};
  refused(parts, "[132, 32, 2]", 2);
  parts = {};
  parts.scales_type = f32;
  refused(parts, "BF16 or F16");
  parts = {};
  parts.codes_type = f32;
  refused(parts, "F32");
  parts = {};
  parts.scales_name = "b.weight_scales";
  refused(parts, "missing");
}

TEST_F(PackedFileTest, refuses_scales_that_are_no_numbers) {
  for (const std::uint16_t bits : std::initializer_list<std::uint16_t>{0x7f80, 0xff80, 0x7fc1}) {
    Parts parts;
    parts.scale = bits;
    refused(parts, "scale 5");
  }
  Parts parts;
  parts.scales_type = f16;
  parts.scales_dims = {16, 5, 2};
  parts.scale = 0x7c00;
  refused(parts, "scale 5");
  parts.scale = 0x7bff;  // 65504
  EXPECT_TRUE(find_packed(file(parts), "a.weight", n_rows, n_cols));
}

TEST_F(PackedFileTest, refuses_later_versions_and_sizes_beyond_bounds) {
  Parts parts;
  parts.version = 2;
  const auto packed = is_packed(file(parts));
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().status, RUNNEL_UNSUPPORTED);
  EXPECT_FALSE(find_packed(file({}), "a.weight", std::size_t{1} << 62, std::size_t{1} << 62));
}

}  // namespace
}  // namespace runnel::test
