// Int8 against Q8_0 arithmetic, and with outliers, on a real model and text that calibration has not seen.
// The full tables: int8-tables.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/io/packed_file.h"
#include "tests/int8/quality.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* model_path = "models/stories260K-f32.gguf";
constexpr const char* text_path = "text/tinystories_val_decoded.txt";
constexpr std::size_t n_chunk = 256;

class Int8Quality : public testing::Test {
 protected:
  void SetUp() override {
    RUNNEL_NEEDS_SHARED(model_path);
    RUNNEL_NEEDS_SHARED(text_path);
    model_ = shared(model_path);
  }

  std::string path(const char* name) const { return folder_.file(name); }

  static std::string text(std::size_t begin, std::size_t n) {
    std::ifstream in(shared(text_path), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(begin));
    std::string part(n, '\0');
    in.read(part.data(), static_cast<std::streamsize>(n));
    return part;
  }
  static std::string calibration() { return text(800'000, 30'000); }
  std::vector<std::vector<Token>> chunks(std::size_t n) const {
    return chunks_of(model_, text(100'000, n * n_chunk * 6), n_chunk, n);
  }

  static void convert(const std::string& in, const std::string& out, const char* type) {
    const auto done = quantize(in, out, {type, {}, {}}, {});
    ASSERT_TRUE(done) << done.error().message;
  }

  // llama.cpp's arithmetic: weights and activations in blocks of 32 with an f16 scale.
  ModelRun q8_0(const std::string& in) const {
    const ChangeRow block = [](float* row, std::size_t n) { round_to_int8(row, n, 32, true); };
    write_rounded(in, path("q8_0"), block, block);
    ModelRun run{path("q8_0"), {}};
    run.changes.reads = block;
    return run;
  }

  Folder folder_;
  std::string model_;
};

TEST_F(Int8Quality, calibrated_is_nearer_to_the_original_than_uncalibrated_and_than_q8_0) {
  const auto test_chunks = chunks(40);
  ModelRun original{model_, {}}, reference = q8_0(model_);
  pack(model_, path("i8"), calibration());
  pack(model_, path("uncalibrated"), "");
  ModelRun own{path("i8"), {}}, uncalibrated{path("uncalibrated"), {}};
  const Figures bar = compare(original, reference, test_chunks),
                figures = compare(original, own, test_chunks);
  EXPECT_GT(bar.kl, 1e-4);  // the reference does round
  EXPECT_LT(figures.kl, bar.kl);
  EXPECT_LT(figures.kl, compare(original, uncalibrated, test_chunks).kl);
  EXPECT_GT(figures.same_top, bar.same_top - bar.same_top_error);
}

TEST_F(Int8Quality, takes_no_more_bits_than_it_says) {
  for (const std::string& path : {model_, shared("models/babyllama-f32.gguf"), demo_model()}) {
    if (!fs::exists(path)) continue;
    pack(path, this->path("i8"), "");
    const auto file = GgufFile::open(path), packed = GgufFile::open(this->path("i8"));
    ASSERT_TRUE(file && packed);
    double n_bytes = 0, n_weights = 0;
    for (const GgufTensor& tensor : file->tensors()) {
      if (!has_packed(*packed, tensor.name)) continue;
      const double n_rows = static_cast<double>(tensor.dims[1]);
      // Not of rows that fill up the last panel.
      const double n_filled = static_cast<double>(filled_up(tensor.dims[1], quant::i8_panel_rows));
      for (const std::string& part : {std::string(tensor.name), packed_scales_name(tensor.name)})
        n_bytes += static_cast<double>(packed->find_tensor(part)->n_bytes) * n_rows / n_filled;
      n_weights += static_cast<double>(tensor.n_elements());
    }
    const double bits = 8 * n_bytes / n_weights;
    EXPECT_LE(bits, 8.25) << path;
    EXPECT_GT(bits, 8.125) << path;
  }
}

// Channels of weights that carry s times more, with and without a text.
TEST_F(Int8Quality, outlying_channels_cost_nothing) {
  const auto test_chunks = chunks(6);
  ModelRun original{model_, {}};
  for (const std::string& text : {std::string(), calibration()}) {
    double at_1 = 0;
    for (const float s : {1.0f, 100.0f, 10'000.0f}) {
      write_with_outliers(model_, path("outliers"), s, 3);
      pack(path("outliers"), path("i8"), text);
      ModelRun own{path("i8"), {}};
      const Figures figures = compare(original, own, test_chunks);
      EXPECT_TRUE(figures.finite);
      if (s == 1.0f) at_1 = figures.kl;
      EXPECT_LT(figures.kl, 1.5 * at_1) << "s " << s << (text.empty() ? "" : ", calibrated");
    }
  }
  ModelRun broken = q8_0(path("outliers"));  // what this is held against does break
  EXPECT_GT(compare(original, broken, test_chunks).kl, 1.0);
}

// Entries of some tokens' hidden state that are k times the others, weights unchanged.
TEST_F(Int8Quality, massive_activations_cost_little) {
  const auto test_chunks = chunks(6);
  pack(model_, path("i8"), "");
  double at_0 = 0;
  for (const double k : {0.0, 1e3, 1e4, 1e6, 1e9}) {
    ModelRun original{model_, {}}, own{path("i8"), {}};
    original.changes.stream_factor = own.changes.stream_factor = k;
    const Figures figures = compare(original, own, test_chunks);
    EXPECT_TRUE(figures.finite) << k;
    if (k == 0) at_0 = figures.kl;
    EXPECT_LT(figures.kl, 1.5 * at_0) << k;
  }
}

// F16 weights may be multiplied in int16 (quant/i16.h): held against activations in f16, which llama.cpp
// multiplies them with, and which end beyond 65,504.
TEST_F(Int8Quality, int16_is_as_good_as_f16) {
  const auto test_chunks = chunks(6);
  convert(model_, path("f16"), "f16");
  convert(path("f16"), path("f32"), "f32");
  for (const double k : {0.0, 1e3, 1e6, 1e9}) {
    ModelRun original{path("f32"), {}}, own{path("f16"), {}};
    original.changes.stream_factor = own.changes.stream_factor = k;
    const Figures figures = compare(original, own, test_chunks);
    EXPECT_TRUE(figures.finite) << k;
    EXPECT_LT(figures.kl, 2e-6) << k;
    if (k != 0) continue;
    ModelRun rounded{path("f32"), {}};
    rounded.changes.reads = round_to_f16;
    const Figures bar = compare(original, rounded, test_chunks);
    std::printf("mean KL of int16 %.3g, of activations in f16 %.3g\n", figures.kl, bar.kl);
    EXPECT_LT(figures.kl, bar.kl);
  }
}

// The same channels as above. With s below 1 it is their weights that are large, and the activations small.
// From s about 50 and 1/30 on they are multiplied in floats; before that int16 loses some bits.
TEST_F(Int8Quality, outlying_channels_cost_int16_little) {
  const auto test_chunks = chunks(6);
  for (const float s : {1e-4f, 1e-2f, 0.08f, 1.0f, 32.0f, 100.0f, 10'000.0f}) {
    write_with_outliers(model_, path("outliers"), s, 3);
    convert(path("outliers"), path("f16"), "f16");
    convert(path("f16"), path("f32"), "f32");
    ModelRun original{path("f32"), {}}, own{path("f16"), {}};
    const Figures figures = compare(original, own, test_chunks);
    EXPECT_TRUE(figures.finite) << "s " << s;
    EXPECT_LT(figures.kl, s == 0.08f || s == 32.0f ? 2e-5 : 2e-6) << "s " << s;
  }
}

}  // namespace
}  // namespace runnel::test
