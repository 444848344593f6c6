#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

constexpr std::size_t n_codes = 65536;
constexpr std::size_t max_length = 130;

bool is_nan_f16(F16 bits) { return (bits & 0x7fffu) > 0x7c00u; }

// All 65536 numbers at once, and pieces of every length up to max_length.
template <class Convert, class Reference>
void check_widening(Convert convert, Reference reference, Report& report) {
  const auto check = [&](std::size_t start, std::size_t n) {
    Guarded<std::uint16_t> x(n);
    Guarded<float> y(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<std::uint16_t>(start + i);
    convert(y.data(), x.data(), n);
    report.expect(y.intact(), "n = %zu wrote before y", n);
    for (std::size_t i = 0; i < n; ++i) {
      const float expected = reference(x[i]);
      const bool both_nan = std::isnan(expected) && std::isnan(y[i]);
      report.expect(both_nan || same_bits(&y[i], &expected, 1), "n = %zu: %04x to %g, expected %g", n,
                    unsigned{x[i]}, static_cast<double>(y[i]), static_cast<double>(expected));
    }
  };
  check(0, n_codes);
  for (std::size_t n = 0; n <= max_length; ++n) check(n * 499, n);
}

// Every f16, the middle between it and the next, and the floats beside those: all that rounding can get
// wrong.
std::vector<float> around_all_f16() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> all = {infinity, -infinity, std::nanf(""), 65519.99f, 65520.0f,
                            1e6f,     -1e30f,    1e-40f,        -0.0f};
  for (std::uint32_t code = 0; code < 0x7c00u; ++code) {
    const float value = quant::f16_to_f32(static_cast<F16>(code));
    const float next = code == 0x7bffu ? 65536.0f : quant::f16_to_f32(static_cast<F16>(code + 1));
    const float middle = 0.5f * (value + next);
    for (const float v : {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity),
                          std::nextafter(value, infinity)}) {
      all.push_back(v);
      all.push_back(-v);
    }
  }
  return all;
}

}  // namespace

void check_f16_to_f32(const Kernels& kernels, Report& report) {
  check_widening(
      kernels.f16_to_f32, [](F16 bits) { return quant::f16_to_f32(bits); }, report);
}

void check_bf16_to_f32(const Kernels& kernels, Report& report) {
  check_widening(
      kernels.bf16_to_f32, [](BF16 bits) { return quant::bf16_to_f32(bits); }, report);
}

void check_f32_to_f16(const Kernels& kernels, Report& report) {
  const std::vector<float> all = around_all_f16();
  const auto check = [&](std::size_t start, std::size_t n) {
    Guarded<float> x(n);
    Guarded<F16> y(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = all[start + i];
    kernels.f32_to_f16(y.data(), x.data(), n);
    report.expect(y.intact(), "n = %zu wrote before y", n);
    for (std::size_t i = 0; i < n; ++i) {
      const F16 expected = quant::f32_to_f16(x[i]);
      report.expect(y[i] == expected || (is_nan_f16(y[i]) && is_nan_f16(expected)),
                    "n = %zu: %.9g to %04x, expected %04x", n, static_cast<double>(x[i]), unsigned{y[i]},
                    unsigned{expected});
    }
  };
  check(0, all.size());
  for (std::size_t n = 0; n <= max_length; ++n) check(n * 499, n);
}

}  // namespace runnel::simd
