// What the kernel checks share. Each kernel of the contract has one check, check_<kernel>(), which compares
// it with its formula in double precision over all remainders, and looks for reads and writes outside its
// arrays. A kernel without a check does not build.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>

#include "quant/float16.h"
#include "simd/kernels.h"
#include "tests/kernels/guarded.h"

namespace runnel::simd {

// Counts what went wrong and prints the first few of it.
class Report {
 public:
  __attribute__((format(printf, 3, 4))) void expect(bool ok, const char* format, ...);
  // |got - expected| <= tolerance; a NaN is never right.
  __attribute__((format(printf, 5, 6))) void near(double got, double expected, double tolerance,
                                                  const char* format, ...);
  std::size_t failures() const { return failures_; }

 private:
  bool print(const char* format, __builtin_va_list args);  // whether it did
  std::size_t failures_ = 0;
};

#define X(name, result, params) void check_##name(const Kernels& kernels, Report& report);
RUNNEL_KERNELS(X)
#undef X

// The same sequence in every run.
class Random {
 public:
  std::uint32_t bits() { return static_cast<std::uint32_t>(engine_()); }
  float uniform(float limit = 1.0f) { return std::uniform_real_distribution<float>(-limit, limit)(engine_); }

  // Uniform in [-1, 1]; now and then 0, a subnormal number, or (if `massive`) one as large as activations
  // get.
  float number(bool massive = false) {
    const std::uint32_t kind = bits() % 32;
    if (kind == 0) return 0.0f;
    if (kind == 1) return 1e-40f * uniform();
    if (kind == 2 && massive) return 1e6f * uniform();
    return uniform();
  }

 private:
  std::mt19937 engine_{1};
};

inline void fill(const Guarded<float>& x, Random& random, bool massive = false) {
  for (float& v : x) v = random.number(massive);
}

constexpr float untouched = 12345.0f;  // between the rows of a result

// Elements of n rows, the last of which ends with its own numbers.
constexpr std::size_t extent(std::size_t n, std::size_t stride, std::size_t length) {
  return n == 0 ? 0 : (n - 1) * stride + length;
}

inline bool same_bits(const float* a, const float* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0;
}

// One NaN is as good as another.
inline bool equal(float a, float b) { return same_bits(&a, &b, 1) || (std::isnan(a) && std::isnan(b)); }

using Sizes = std::initializer_list<std::size_t>;

constexpr double float_epsilon = 0x1p-23;

// What a sum of n float products may be off by, in any order; mass: the sum of their magnitudes. A product
// below the normal numbers adds a few units of the smallest.
inline double sum_tolerance(double mass, std::size_t n) {
  const auto count = static_cast<double>(n);
  return float_epsilon * (4.0 + std::sqrt(count)) * mass + 2e-45 * count + 2e-45;
}

// What rounding n numbers to factor_steps may change, for each unit of what they meet.
inline double rounding_tolerance(const float* x, std::size_t n) {
  float max = 0.0f;
  for (std::size_t i = 0; i < n; ++i) max = std::max(max, std::fabs(x[i]));
  return static_cast<double>(max) * (max < 0x1p-100f ? 1.0 : 0.5001 / factor_steps);
}

// Where block b of token t of activations x is: they lie in whole chunks of tokens, or all in one that is
// smaller.
template <class X>
std::size_t block_place(const X& x, std::size_t t, std::size_t b) {
  return (t / x.width * ((x.n_cols + 31) / 32) + b) * x.width + t % x.width;
}

// The weight formats under one name.
struct FormatF32 {
  using Element = float;
  static double value(float w) { return static_cast<double>(w); }
  static float make(float v) { return v; }
};
struct FormatF16 {
  using Element = F16;
  static double value(F16 w) { return static_cast<double>(quant::f16_to_f32(w)); }
  static F16 make(float v) { return quant::f32_to_f16(v); }
};
struct FormatBf16 {
  using Element = BF16;
  static double value(BF16 w) { return static_cast<double>(quant::bf16_to_f32(w)); }
  static BF16 make(float v) { return quant::f32_to_bf16(v); }
};

}  // namespace runnel::simd
