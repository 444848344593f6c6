#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all = {1000, 4096, 8192};
  for (std::size_t n = 0; n <= 130; ++n) all.push_back(n);
  return all;
}

// Ordinary numbers; one of them massive for every third length, all tiny (eps decides) for another third.
void fill_vector(const Guarded<float>& x, Random& random) {
  for (float& v : x) v = random.uniform() * (x.size() % 3 == 1 ? 1e-4f : 1.0f);
  if (x.size() != 0 && x.size() % 3 == 0) x[x.size() / 2] = 1e6f;
}

double mean_of(const Guarded<float>& x) {
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v);
  return sum / static_cast<double>(x.size());
}

double mean_square_from(const Guarded<float>& x, double centre) {
  double sum = 0.0;
  for (const float v : x) sum += (static_cast<double>(v) - centre) * (static_cast<double>(v) - centre);
  return sum / static_cast<double>(x.size());
}

constexpr float eps = 1e-5f;
constexpr double tolerance = 1e-5;  // sums of 8192 floats

}  // namespace

void check_rms_norm(const Kernels& kernels, Report& report) {
  Random random;
  for (const std::size_t n : lengths()) {
    Guarded<float> x(n), gain(n), y(n);
    fill_vector(x, random);
    fill(gain, random);
    const double root = std::sqrt(mean_square_from(x, 0.0) + static_cast<double>(eps));
    kernels.rms_norm(y.data(), x.data(), gain.data(), n, eps);
    report.expect(y.intact(), "n = %zu wrote before y", n);
    Guarded<float> own(n);
    std::copy(x.begin(), x.end(), own.begin());
    kernels.rms_norm(own.data(), own.data(), gain.data(), n, eps);
    report.expect(same_bits(own.data(), y.data(), n), "n = %zu: differs in place", n);
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = static_cast<double>(x[i]) / root * static_cast<double>(gain[i]);
      report.near(static_cast<double>(y[i]), expected, tolerance * std::fabs(expected) + 1e-43,
                  "n = %zu: y[%zu]", n, i);
    }
  }
}

void check_layer_norm(const Kernels& kernels, Report& report) {
  Random random;
  for (const std::size_t n : lengths()) {
    Guarded<float> x(n), gain(n), bias(n), y(n);
    fill_vector(x, random);
    fill(gain, random);
    fill(bias, random);
    const double mean = mean_of(x);
    const double root = std::sqrt(mean_square_from(x, mean) + static_cast<double>(eps));
    for (const bool has_bias : {true, false}) {
      const float* const b_or_null = has_bias ? bias.data() : nullptr;
      kernels.layer_norm(y.data(), x.data(), gain.data(), b_or_null, n, eps);
      report.expect(y.intact(), "n = %zu wrote before y", n);
      Guarded<float> own(n);
      std::copy(x.begin(), x.end(), own.begin());
      kernels.layer_norm(own.data(), own.data(), gain.data(), b_or_null, n, eps);
      report.expect(same_bits(own.data(), y.data(), n), "n = %zu: differs in place", n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto g = static_cast<double>(gain[i]);
        const double b = has_bias ? static_cast<double>(bias[i]) : 0.0;
        const double centred = static_cast<double>(x[i]) - mean;
        const double error = tolerance * (std::fabs(static_cast<double>(x[i])) + std::fabs(mean)) / root;
        report.near(static_cast<double>(y[i]), centred / root * g + b,
                    error * std::fabs(g) + 2 * float_epsilon * std::fabs(b) + 1e-43, "n = %zu: y[%zu]", n, i);
      }
    }
  }
}

}  // namespace runnel::simd
