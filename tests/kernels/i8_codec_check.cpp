// Checks the packed int8 format and its scalar codec (quant/i8.h) against their definition.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "quant/float16.h"
#include "quant/i8.h"
#include "tests/support/int8_panels.h"

namespace runnel::quant {
namespace {

int n_failed = 0;

void expect(bool ok, const char* what, std::size_t subject) {
  if (ok) return;
  if (++n_failed <= 20) std::printf("FAIL %s: %zu\n", what, subject);
}

// Filled with a pattern, so that what packing leaves out is seen.
struct Packed {
  std::vector<std::int8_t> codes;
  std::vector<std::uint16_t> scales;
  MutablePanelsI8 out;
  PanelsI8 in;
  explicit Packed(const ShapeI8& shape)
      : codes(shape.n_codes(), 0x55),
        scales(shape.n_scales(), 0x5555),
        out{shape, codes.data(), scales.data()},
        in{shape, codes.data(), scales.data()} {}
};

// w: [n_rows, n_cols] of `out`, finite.
void pack(const MutablePanelsI8& out, const float* w) {
  const ShapeI8& shape = out.shape;
  std::vector<std::int8_t> codes(shape.n_cols);
  std::vector<std::uint16_t> scales(shape.n_groups());
  for (std::size_t r = 0; r < shape.n_rows; ++r) {
    const std::size_t n_finite =
        quantize_row_i8(codes.data(), scales.data(), w + r * shape.n_cols, shape.n_cols, shape.variant);
    expect(n_finite == shape.n_cols, "row is finite", r);
    store_row_i8(out, r, codes.data(), scales.data());
  }
  clear_rows_i8(out);
}

std::vector<float> random_weights(std::size_t n, float size) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> w(n);
  for (float& v : w) v = uniform(engine);
  return w;
}

float scale_value(const ShapeI8& shape, std::uint16_t bits) {
  return shape.variant == VariantI8::g32 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// scale = max |w| / 127 rounded, code = w / scale to the nearest: half a step off at most.
void check_row(const Packed& packed, const std::vector<float>& w, std::size_t r) {
  const ShapeI8& shape = packed.in.shape;
  const float* row = w.data() + r * shape.n_cols;
  std::vector<float> decoded(shape.n_cols);
  decode_row_i8(decoded.data(), packed.in, r);
  for (std::size_t c = 0; c < shape.n_cols; c += shape.group()) {
    const std::size_t end = std::min(shape.n_cols, c + shape.group());
    float max = 0.0f;
    for (std::size_t i = c; i < end; ++i) max = std::max(max, std::fabs(row[i]));
    const std::uint16_t bits = test::scale_at(packed.in, r, c / shape.group());
    expect(bits == (shape.variant == VariantI8::g32 ? f32_to_f16(max / 127.0f) : f32_to_bf16(max / 127.0f)),
           "scale", c);
    const double scale = static_cast<double>(scale_value(shape, bits));
    bool reaches_127 = false;
    for (std::size_t i = c; i < end; ++i) {
      const int code = test::code_at(packed.in, r, i);
      reaches_127 = reaches_127 || std::abs(code) == 127;
      expect(std::abs(static_cast<double>(row[i]) / scale - code) <= 0.5 + 1e-5, "nearest code", i);
      expect(static_cast<double>(decoded[i]) == scale * code, "decoded value", i);
    }
    expect(reaches_127, "the largest has code 127", c);
  }
}

void check_padding(const Packed& packed) {
  const ShapeI8& shape = packed.in.shape;
  for (std::size_t r = 0; r < shape.n_panels() * 16; ++r) {
    for (std::size_t c = r < shape.n_rows ? shape.n_cols : 0; c < (shape.n_cols + 3) / 4 * 4; ++c)
      expect(test::code_at(packed.in, r, c) == 0, "filling code", c);
    for (std::size_t g = 0; r >= shape.n_rows && g < shape.n_groups(); ++g)
      expect(test::scale_at(packed.in, r, g) == 0, "filling scale", g);
  }
}

void check_pack(const ShapeI8& shape) {
  const std::vector<float> w = random_weights(shape.n_rows * shape.n_cols, 1.0f);
  Packed packed(shape);
  pack(packed.out, w.data());
  for (std::size_t r = 0; r < shape.n_rows; ++r) check_row(packed, w, r);
  check_padding(packed);
}

// Panels packed one at a time, as threads do.
void check_parts(const ShapeI8& shape) {
  const std::vector<float> w = random_weights(shape.n_rows * shape.n_cols, 1.0f);
  Packed whole(shape);
  Packed parts(shape);
  pack(whole.out, w.data());
  for (std::size_t r = 0; r < shape.n_rows; r += 16)
    pack(parts.out.rows(r, std::min<std::size_t>(16, shape.n_rows - r)), w.data() + r * shape.n_cols);
  expect(whole.codes == parts.codes && whole.scales == parts.scales, "in parts", shape.n_rows);
}

void check_not_finite() {
  constexpr std::size_t n_cols = 300;
  std::int8_t codes[n_cols];
  std::uint16_t scales[3];
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{131}, n_cols - 1}) {
      std::vector<float> w(n_cols, 1.0f);
      w[at] = bad;
      expect(quantize_row_i8(codes, scales, w.data(), n_cols, VariantI8::g128) == at, "not finite", at);
    }
  }
}

void check_q8_0() {
  constexpr std::size_t n_rows = 37;
  constexpr std::size_t n_cols = 96;
  std::mt19937 engine(2);
  std::vector<unsigned char> blocks(n_rows * n_cols / 32 * sizeof(BlockQ8_0) + 1);
  for (unsigned char& byte : blocks)
    byte = static_cast<unsigned char>(engine());  // any scale, any code, -128 too
  Packed packed({VariantI8::g32, n_rows, n_cols});
  for (std::size_t r = 0; r < n_rows; ++r) {
    std::int8_t codes[n_cols];
    std::uint16_t scales[n_cols / 32];
    for (std::size_t b = 0; b < n_cols / 32; ++b) {
      const unsigned char* block = blocks.data() + 1 + (r * n_cols / 32 + b) * sizeof(BlockQ8_0);
      std::memcpy(&scales[b], block, 2);
      std::memcpy(codes + b * 32, block + 2, 32);
    }
    store_row_i8(packed.out, r, codes, scales);
  }
  clear_rows_i8(packed.out);
  check_padding(packed);
  const std::vector<BlockQ8_0> back = test::q8_0_blocks(packed.in);
  expect(back.size() * sizeof back[0] == blocks.size() - 1 &&
             std::memcmp(back.data(), blocks.data() + 1, blocks.size() - 1) == 0,
         "Q8_0 in and out", 0);
  std::vector<float> expected(n_cols);
  std::vector<float> decoded(n_cols);
  for (std::size_t r = 0; r < n_rows; ++r) {
    decode_q8_0(expected.data(), blocks.data() + 1 + r * n_cols / 32 * sizeof(BlockQ8_0), n_cols);
    decode_row_i8(decoded.data(), packed.in, r);
    for (std::size_t c = 0; c < n_cols; ++c)
      expect(decoded[c] == expected[c] || (std::isnan(decoded[c]) && std::isnan(expected[c])),
             "value of Q8_0", c);
  }
}

// One group of four numbers.
std::vector<float> through(VariantI8 variant, const std::vector<float>& w) {
  Packed packed({variant, 1, w.size()});
  pack(packed.out, w.data());
  std::vector<float> decoded(w.size());
  decode_row_i8(decoded.data(), packed.in, 0);
  return decoded;
}

void check_extremes() {
  for (const VariantI8 variant : {VariantI8::g32, VariantI8::g128}) {
    const std::vector<float> zeros(4);
    expect(through(variant, zeros) == zeros, "zeros", 0);
    const std::vector<float> ties = {127.0f, 0.5f, 1.5f, -2.5f};
    expect(through(variant, ties) == std::vector<float>({127.0f, 0.0f, 2.0f, -2.0f}), "ties to even", 0);
    expect(through(variant, {1e-45f, 0.0f, 0.0f, 0.0f}) == zeros, "too small for its scale", 0);
  }
  // Finite in f32 and beyond the range of f16 scales: bf16 keeps it, f16 saturates.
  expect(std::fabs(through(VariantI8::g128, {3e38f, 0.0f, 0.0f, 0.0f})[0] / 3e38f - 1.0f) < 0.004f, "large",
         0);
  expect(through(VariantI8::g32, {3e38f, 0.0f, 0.0f, 0.0f})[0] == 127.0f * 65504.0f, "f16 saturates", 0);
  // Where f16 scales are coarse nothing may be clipped by more than a step.
  for (int i = 0; i < 2000; ++i) {
    const float max = 127.0f * 0x1p-24f * (0.51f + 0.01f * static_cast<float>(i));
    const float decoded = through(VariantI8::g32, {max, 0.0f, 0.0f, 0.0f})[0];
    const float step = f16_to_f32(f32_to_f16(max / 127.0f));
    expect(std::fabs(decoded - max) <= step + 0x1p-24f, "small scales", static_cast<std::size_t>(i));
  }
}

// The bytes of the layout, spelt out.
void check_layout() {
  constexpr std::size_t n_rows = 18;
  constexpr std::size_t n_cols = 130;
  Packed packed({VariantI8::g128, n_rows, n_cols});
  std::vector<std::int8_t> codes(n_cols);
  for (std::size_t r = 0; r < n_rows; ++r) {
    for (std::size_t c = 0; c < n_cols; ++c) codes[c] = static_cast<std::int8_t>(r * 7 + c);
    const std::uint16_t scales[] = {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(100 + r)};
    store_row_i8(packed.out, r, codes.data(), scales);
  }
  clear_rows_i8(packed.out);
  const auto at = [&](std::size_t byte) { return packed.codes[byte]; };
  expect(packed.codes.size() == 2 * 33 * 64 && packed.scales.size() == 2 * 2 * 16, "sizes",
         packed.codes.size());
  expect(at(0) == 0 && at(3) == 3 && at(4) == 7 && at(63) == 15 * 7 + 3 && at(64) == 4, "first steps", 0);
  expect(
      at(33 * 64) == static_cast<std::int8_t>(16 * 7) && at(33 * 64 + 4) == static_cast<std::int8_t>(17 * 7),
      "second panel", 16);
  expect(at(32 * 64 + 1) == static_cast<std::int8_t>(129) && at(32 * 64 + 2) == 0, "last step", 32);
  expect(packed.scales[15] == 15 && packed.scales[16] == 100 && packed.scales[33] == 17 &&
             packed.scales[34] == 0,
         "scales", 0);
}

}  // namespace
}  // namespace runnel::quant

int main() {
  using namespace runnel::quant;
  check_layout();
  for (const VariantI8 variant : {VariantI8::g32, VariantI8::g128}) {
    for (const std::size_t n_cols :
         std::initializer_list<std::size_t>{0, 1, 3, 4, 5, 31, 32, 33, 44, 127, 128, 129, 172, 704}) {
      for (const std::size_t n_rows : std::initializer_list<std::size_t>{1, 15, 16, 17, 40})
        check_pack({variant, n_rows, n_cols});
    }
    check_parts({variant, 53, 200});
  }
  check_not_finite();
  check_q8_0();
  check_extremes();
  return n_failed == 0 ? 0 : 1;
}
