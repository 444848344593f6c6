#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double exp_tolerance = 1e-6;  // relative
constexpr double smallest_exp = 1e-37;  // below, vector exponentials may give 0

// Scores of a block: some masked, over a range of `limit`.
void fill_scores(const Guarded<float>& s, Random& random, float limit) {
  for (float& v : s) v = random.bits() % 5 == 0 ? -infinity : random.uniform(limit);
}

// exp(x - max) where the difference is rounded to float, as every implementation does.
double exp_of(float x, float max) { return std::exp(static_cast<double>(x - max)); }

void check_block(const Kernels& kernels, const Guarded<float>& s, float* max, float* sum, Report& report) {
  const std::vector<float> scores(s.begin(), s.end());
  const float old_max = *max;
  const float old_sum = *sum;
  const float returned = kernels.softmax_step(s.data(), s.size(), max, sum);
  report.expect(s.intact(), "n = %zu wrote before s", s.size());
  float new_max = old_max;
  for (const float v : scores) new_max = std::max(new_max, v);
  report.expect(*max == new_max, "n = %zu: max %g, expected %g", s.size(), static_cast<double>(*max),
                static_cast<double>(new_max));
  if (new_max == -infinity) {
    report.expect(returned == 1.0f && *sum == old_sum, "n = %zu, all masked: returned %g", s.size(),
                  static_cast<double>(returned));
    report.expect(std::all_of(s.begin(), s.end(), [](float v) { return v == 0.0f; }),
                  "n = %zu, all masked: not 0", s.size());
    return;
  }
  const double rescale = exp_of(old_max, new_max);
  report.near(static_cast<double>(returned), rescale, exp_tolerance * rescale + smallest_exp,
              "n = %zu: returned", s.size());
  double total = static_cast<double>(old_sum) * rescale;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const double expected = exp_of(scores[i], new_max);
    total += expected;
    report.near(static_cast<double>(s[i]), expected, exp_tolerance * expected + smallest_exp,
                "n = %zu: s[%zu]", s.size(), i);
    report.expect(scores[i] != -infinity || s[i] == 0.0f, "n = %zu: s[%zu] is masked", s.size(), i);
  }
  report.near(static_cast<double>(*sum), total, 4 * exp_tolerance * total, "n = %zu: sum", s.size());
}

// A score that is no number is not lost, or it is a masked key.
void check_no_number(const Kernels& kernels, std::size_t n, std::size_t bad, Random& random, Report& report) {
  Guarded<float> s(n);
  fill_scores(s, random, 1.0f);
  s[bad] = std::numeric_limits<float>::quiet_NaN();
  float max = -infinity;
  float sum = 0.0f;
  kernels.softmax_step(s.data(), n, &max, &sum);
  report.expect(std::isnan(sum) || s[bad] == 0.0f, "n = %zu: s[%zu], which is no number, counts as %g", n,
                bad, static_cast<double>(s[bad]));
}

}  // namespace

void check_softmax_step(const Kernels& kernels, Report& report) {
  Random random;
  for (std::size_t n = 0; n <= 130; ++n) {
    for (const float limit : {0.0f, 1.0f, 100.0f, 1e6f}) {
      float max = -infinity;
      float sum = 0.0f;
      Guarded<float> s(n);
      std::fill(s.begin(), s.end(), -infinity);
      check_block(kernels, s, &max, &sum, report);  // all masked
      for (int block = 0; block < 3; ++block) {
        fill_scores(s, random, limit);
        check_block(kernels, s, &max, &sum, report);
      }
      std::fill(s.begin(), s.end(), -infinity);
      check_block(kernels, s, &max, &sum, report);
    }
  }
  for (std::size_t n = 1; n <= 40; ++n) {
    for (std::size_t bad = 0; bad < n; ++bad) check_no_number(kernels, n, bad, random, report);
  }
}

}  // namespace runnel::simd
