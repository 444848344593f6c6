// Checks the scalar codecs and the table of tensor types against the formats' definitions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/float16.h"
#include "quant/q8_0.h"
#include "quant/tensor_type.h"

namespace runnel::quant {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
int n_failed = 0;

void expect(bool ok, const char* what, double subject) {
  if (ok) return;
  ++n_failed;
  std::printf("FAIL %s: %.9g\n", what, subject);
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// IEEE 754-2019 section 3.4: the value of a binary16.
float f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude = 0.0;
  if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else if (exponent < 31) {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  } else {
    magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return static_cast<float>(bits >> 15 == 0 ? magnitude : -magnitude);
}

// The number with `n_bits` significant bits (fewer below 2^min_exponent) nearest to x, ties to even; in
// double, where every step but the rounding is exact.
double nearest(float x, int n_bits, int min_exponent) {
  if (x == 0.0f || !std::isfinite(x)) return static_cast<double>(x);
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), min_exponent) - n_bits + 1);
  return std::nearbyint(static_cast<double>(x) / unit) * unit;
}

float nearest_f16(float x) {
  const double value = nearest(x, 11, -14);
  return std::fabs(value) > 65504.0 ? std::copysign(infinity, x) : static_cast<float>(value);
}

float nearest_bf16(float x) {
  const double value = nearest(x, 8, -126);
  return std::fabs(value) >= 0x1p128 ? std::copysign(infinity, x) : static_cast<float>(value);
}

// About 300,000 floats over all signs and exponents, ties of both formats among them.
std::vector<float> sample_floats() {
  std::vector<float> all;
  for (std::uint32_t high = 0; high < 0x10000u; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x1000u, 0x8000u, 0xffffu}) {
      all.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  return all;
}

void check_float16() {
  for (std::uint32_t code = 0; code < 0x10000u; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const float value = f16_to_f32(bits);
    expect(same_bits(value, f16_value(bits)), "value of f16", code);
    expect(std::isnan(value) ? std::isnan(f16_to_f32(f32_to_f16(value))) : f32_to_f16(value) == bits,
           "f16 back to itself", code);
    const float wide = bf16_to_f32(bits);
    expect(std::bit_cast<std::uint32_t>(wide) == code << 16, "value of bf16", code);
    expect(std::isnan(wide) ? std::isnan(bf16_to_f32(f32_to_bf16(wide))) : f32_to_bf16(wide) == bits,
           "bf16 back to itself", code);
  }
  for (const float x : sample_floats()) {
    const double subject = static_cast<double>(x);
    expect(same_bits(f16_to_f32(f32_to_f16(x)), nearest_f16(x)), "nearest f16", subject);
    expect(same_bits(bf16_to_f32(f32_to_bf16(x)), nearest_bf16(x)), "nearest bf16", subject);
  }
  for (std::uint32_t code = 0; code < 0x7bffu; ++code) {  // the middles between neighbours, and beside them
    const float middle = 0.5f * (f16_value(static_cast<std::uint16_t>(code)) +
                                 f16_value(static_cast<std::uint16_t>(code + 1)));
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity)}) {
      expect(same_bits(f16_to_f32(f32_to_f16(x)), nearest_f16(x)), "nearest f16", static_cast<double>(x));
    }
  }
}

// d = max |x| / 127 as f16, qs = x / d to nearest; |x - decoded| is then at most half a step, give or take
// d's rounding.
void check_q8_0_block(const std::vector<float>& x) {
  BlockQ8_0 block;
  encode_q8_0(&block, x.data(), x.size());
  float max = 0.0f;
  for (const float v : x) max = std::max(max, std::fabs(v));
  const float step = max / 127.0f;
  expect(block.d == f32_to_f16(step), "q8_0 scale", static_cast<double>(max));
  std::vector<float> decoded(x.size());
  decode_q8_0(decoded.data(), &block, x.size());
  const double d = static_cast<double>(f16_to_f32(block.d));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = static_cast<double>(x[i]) / static_cast<double>(step);
    expect(std::fabs(exact - block.qs[i]) <= 0.5 + 1e-4, "q8_0 quant", exact);
    expect(same_bits(decoded[i], static_cast<float>(d * block.qs[i])), "q8_0 value", d);
  }
}

void check_q8_0() {
  std::vector<float> x(BlockQ8_0::size);
  std::uint32_t state = 1;
  for (const float size : {1.0f, 1e-3f, 127.0f, 1e4f, 8e6f}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      for (float& v : x) {
        state = state * 1664525u + 1013904223u;
        v = size * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
      }
      check_q8_0_block(x);
    }
  }
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 15.5f;  // with d = 1: ties
  x[0] = 127.0f;
  BlockQ8_0 block;
  encode_q8_0(&block, x.data(), x.size());
  for (std::size_t i = 1; i < x.size(); ++i) {
    expect(block.qs[i] == static_cast<int>(std::round(x[i])), "q8_0 tie", static_cast<double>(x[i]));
  }
}

// What f16 scales cannot hold must still give finite numbers.
void check_q8_0_extremes() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float extreme : {infinity, -infinity, nan, 1e30f, 1e-40f, 0.0f}) {
    std::vector<float> x(BlockQ8_0::size, 0.25f * (std::fabs(extreme) < 1.0f ? extreme : 1.0f));
    x[5] = extreme;
    BlockQ8_0 block;
    encode_q8_0(&block, x.data(), x.size());
    std::vector<float> decoded(x.size());
    decode_q8_0(decoded.data(), &block, x.size());
    for (const float v : decoded)
      expect(std::isfinite(v), "q8_0 of an extreme is finite", static_cast<double>(extreme));
    expect(!std::isinf(extreme) || decoded[5] == std::copysign(127.0f * 65504.0f, extreme), "q8_0 saturates",
           static_cast<double>(decoded[5]));
    expect(!std::isnan(extreme) || decoded[5] == 0.0f, "q8_0 of NaN", static_cast<double>(decoded[5]));
  }
}

// Through the table: every format keeps what it can hold, at any alignment and in its own size.
void check_types() {
  constexpr std::size_t n = 96;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 32) - 15.0f;
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16, TensorType::q8_0}) {
    const TypeInfo& info = type_info(type);
    const auto id = static_cast<std::uint32_t>(type);
    expect(info.type == type && info.is_read() && info.holds_weights(), "row of type", id);
    const std::size_t bytes = row_bytes(info, n);
    std::vector<unsigned char> stored(bytes + 2, 0xa5);
    info.encode(stored.data() + 1, x.data(), n);
    expect(stored.front() == 0xa5 && stored.back() == 0xa5, "bytes of type", id);
    std::vector<float> back(n);
    info.decode(back.data(), stored.data() + 1, n);
    const float tolerance = type == TensorType::q8_0 ? 16.0f / 127.0f * 0.51f : 0.0f;
    for (std::size_t i = 0; i < n; ++i)
      expect(std::fabs(back[i] - x[i]) <= tolerance, "round trip of type", id);
  }
  expect(type_info(TensorType::i32).decode == nullptr && type_info(TensorType::i8).encode == nullptr,
         "integers", 0);
  expect(type_info(TensorType::i32).is_read() && type_info(TensorType::i8).is_read(), "integers are read", 0);
  expect(type_info(4) == nullptr && type_info(1000) == nullptr && type_info(0xffffffffu) == nullptr,
         "no type", 4);
}

// What runnel does not read has its name and size all the same, and no id is there twice.
void check_other_types() {
  std::size_t n_unread = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const TypeInfo* info = type_info(id);
    if (info == nullptr) continue;
    expect(static_cast<std::uint32_t>(info->type) == id, "id of type", id);
    expect(info->block_size > 0 && info->block_bytes > 0, "size of type", id);
    if (info->is_read()) continue;
    ++n_unread;
    expect(!info->holds_weights() && info->encode == nullptr, "no codec of type", id);
  }
  expect(n_unread == 34, "types that are not read", static_cast<double>(n_unread));
  const auto is = [](std::uint32_t id, const char* name, std::size_t size, std::size_t bytes) {
    const TypeInfo* info = type_info(id);
    return std::strcmp(info->name, name) == 0 && info->block_size == size && info->block_bytes == bytes;
  };
  expect(is(2, "Q4_0", 32, 18) && is(12, "Q4_K", 256, 144) && is(14, "Q6_K", 256, 210), "4 and 6 bits", 12);
  expect(is(39, "MXFP4", 32, 17) && is(30, "BF16", 1, 2) && is(28, "F64", 1, 8), "floats", 39);
}

}  // namespace
}  // namespace runnel::quant

int main() {
  runnel::quant::check_float16();
  runnel::quant::check_q8_0();
  runnel::quant::check_q8_0_extremes();
  runnel::quant::check_types();
  runnel::quant::check_other_types();
  return runnel::quant::n_failed == 0 ? 0 : 1;
}
