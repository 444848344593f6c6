#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

constexpr double activation_tolerance = 2e-6;
constexpr std::size_t max_length = 130;

// y[i] = f(a[i], b[i]). call(y, a, b, n) is the kernel; expect(a, b) gives value and tolerance. Also: the
// same bits when y is a or b, and for each number by itself.
struct Expected {
  double value, tolerance;
};
template <class Call, class Expect>
void check_binary(Call call, Expect expect, bool in_place, Report& report) {
  Random random;
  for (std::size_t n = 0; n <= max_length; ++n) {
    Guarded<float> a(n), b(n), y(n);
    for (float& v : a) v = n % 2 == 0 ? random.number(true) : random.uniform(20.0f);
    fill(b, random);
    call(y.data(), a.data(), b.data(), n);
    report.expect(y.intact(), "n = %zu wrote before y", n);
    for (std::size_t i = 0; i < n; ++i) {
      const Expected e = expect(static_cast<double>(a[i]), static_cast<double>(b[i]));
      report.near(static_cast<double>(y[i]), e.value, e.tolerance, "n = %zu: f(%g, %g)", n,
                  static_cast<double>(a[i]), static_cast<double>(b[i]));
      float alone = 0.0f;
      call(&alone, &a[i], &b[i], 1);
      report.expect(same_bits(&alone, &y[i], 1), "n = %zu: number %zu alone has other bits", n, i);
    }
    if (!in_place) continue;
    Guarded<float> over_a(n), over_b(n);
    std::copy(a.begin(), a.end(), over_a.begin());
    std::copy(b.begin(), b.end(), over_b.begin());
    call(over_a.data(), over_a.data(), b.data(), n);
    call(over_b.data(), a.data(), over_b.data(), n);
    report.expect(same_bits(over_a.data(), y.data(), n), "n = %zu: over the first argument", n);
    report.expect(same_bits(over_b.data(), y.data(), n), "n = %zu: over the second argument", n);
  }
}

Expected relative(double value) { return {value, activation_tolerance * std::fabs(value) + 1e-36}; }

double exact_silu(double x) { return x / (1.0 + std::exp(-x)); }
double exact_gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
// 1 + tanh(...) in float is off by its rounding unit, however small it is.
Expected gelu_times(double x, double up) {
  return {exact_gelu(x) * up, activation_tolerance * std::fabs(x * up) + 1e-36};
}

// Turns call(x, n), in place, into call(y, a, b, n).
template <class Fn>
auto copied(Fn call) {
  return [call](float* y, const float* a, const float*, std::size_t n) {
    std::copy_n(a, n, y);
    call(y, n);
  };
}

template <class Fn>
void check_rope(Fn fn, bool adjacent, Report& report) {
  Random random;
  for (std::size_t n = 0; n <= max_length; ++n) {
    Guarded<float> x(2 * n), cos(n), sin(n);
    fill(x, random, n % 2 == 1);
    for (std::size_t i = 0; i < n; ++i) {
      const float angle = random.uniform(10.0f);
      cos[i] = std::cos(angle);
      sin[i] = std::sin(angle);
    }
    const std::vector<float> before(x.begin(), x.end());
    fn(x.data(), cos.data(), sin.data(), n);
    report.expect(x.intact(), "n = %zu wrote before x", n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t ia = adjacent ? 2 * i : i;
      const std::size_t ib = adjacent ? 2 * i + 1 : i + n;
      const double a = static_cast<double>(before[ia]), b = static_cast<double>(before[ib]);
      const double c = static_cast<double>(cos[i]), s = static_cast<double>(sin[i]);
      const double tolerance = 2 * float_epsilon * (std::fabs(a) + std::fabs(b)) + 1e-43;
      report.near(static_cast<double>(x[ia]), a * c - b * s, tolerance, "n = %zu: pair %zu, first", n, i);
      report.near(static_cast<double>(x[ib]), a * s + b * c, tolerance, "n = %zu: pair %zu, second", n, i);
      float alone[2] = {before[ia], before[ib]};
      fn(alone, &cos[i], &sin[i], 1);
      report.expect(same_bits(&alone[0], &x[ia], 1) && same_bits(&alone[1], &x[ib], 1),
                    "n = %zu: pair %zu alone has other bits", n, i);
    }
  }
}

}  // namespace

void check_rope_adjacent(const Kernels& kernels, Report& report) {
  check_rope(kernels.rope_adjacent, true, report);
}
void check_rope_halves(const Kernels& kernels, Report& report) {
  check_rope(kernels.rope_halves, false, report);
}

void check_silu_mul(const Kernels& kernels, Report& report) {
  check_binary(
      kernels.silu_mul, [](double g, double u) { return relative(exact_silu(g) * u); }, true, report);
}

void check_gelu_mul(const Kernels& kernels, Report& report) {
  check_binary(kernels.gelu_mul, gelu_times, true, report);
}

void check_gelu(const Kernels& kernels, Report& report) {
  const auto call = [&](float* y, const float* a, const float*, std::size_t n) { kernels.gelu(y, a, n); };
  check_binary(
      call, [](double x, double) { return gelu_times(x, 1.0); }, false, report);
  Guarded<float> x(max_length);
  Random random;
  fill(x, random);
  std::vector<float> y(x.size());
  kernels.gelu(y.data(), x.data(), x.size());
  kernels.gelu(x.data(), x.data(), x.size());
  report.expect(same_bits(x.data(), y.data(), x.size()), "in place");
}

void check_add(const Kernels& kernels, Report& report) {
  const auto call = [&](float* y, const float* a, const float* b, std::size_t n) {
    std::copy_n(a, n, y);
    kernels.add(y, b, n);
  };
  check_binary(
      call,
      [](double a, double b) {
        return Expected{static_cast<double>(static_cast<float>(a + b)), 0.0};
      },
      false, report);
}

void check_mul(const Kernels& kernels, Report& report) {
  const auto call = [&](float* y, const float* a, const float* b, std::size_t n) {
    std::copy_n(a, n, y);
    kernels.mul(y, b, n);
  };
  check_binary(
      call,
      [](double a, double b) {
        return Expected{static_cast<double>(static_cast<float>(a * b)), 0.0};
      },
      false, report);
}

void check_add_scaled(const Kernels& kernels, Report& report) {
  constexpr float factor = -1.7f;
  const auto call = [&](float* y, const float* a, const float* b, std::size_t n) {
    std::copy_n(a, n, y);
    kernels.add_scaled(y, b, factor, n);
  };
  check_binary(
      call,
      [](double a, double b) {
        const double product = static_cast<double>(factor) * b;
        return Expected{a + product, float_epsilon * (std::fabs(a) + std::fabs(product)) + 1e-44};
      },
      false, report);
}

void check_scale(const Kernels& kernels, Report& report) {
  for (const float factor : {0.0f, 1.0f, -0.3f, 1e20f}) {
    check_binary(
        copied([&](float* x, std::size_t n) { kernels.scale(x, factor, n); }),
        [=](double a, double) {
          return Expected{static_cast<double>(static_cast<float>(a * static_cast<double>(factor))), 0.0};
        },
        false, report);
  }
}

void check_soft_cap(const Kernels& kernels, Report& report) {
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    check_binary(
        copied([&](float* x, std::size_t n) { kernels.soft_cap(x, cap, n); }),
        [=](double a, double) {
          const double c = static_cast<double>(cap);
          return relative(c * std::tanh(a / c));
        },
        false, report);
  }
}

}  // namespace runnel::simd
