#include <algorithm>
#include <cmath>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

constexpr float untouched = 12345.0f;  // between the rows of a result

struct AttentionCase {
  std::size_t n_q, n_k, dim;
};

std::size_t extent(std::size_t n, std::size_t stride, std::size_t length) {
  return n == 0 ? 0 : (n - 1) * stride + length;
}

// Every shape around the tiles' edges, and some as models have them.
template <class F>
void for_each_case(F check) {
  for (std::size_t dim = 0; dim <= 40; ++dim) {
    for (const std::size_t n_q : Sizes{0, 1, 2, 3, 4, 5, 7}) {
      for (const std::size_t n_k : Sizes{0, 1, 3, 4, 5, 9}) check(AttentionCase{n_q, n_k, dim});
    }
  }
  for (const std::size_t dim : Sizes{47, 64, 65, 80, 96, 112, 127, 128, 129, 130, 192, 256, 300}) {
    check(AttentionCase{1, 33, dim});
    check(AttentionCase{8, 17, dim});
  }
  check(AttentionCase{36, 257, 64});
}

void expect_untouched(const float* row, std::size_t length, std::size_t stride, const AttentionCase& a,
                      Report& report) {
  for (std::size_t i = length; i < stride; ++i) {
    report.expect(same_bits(row + i, &untouched, 1), "%zu queries, %zu keys, dim %zu: wrote between rows",
                  a.n_q, a.n_k, a.dim);
  }
}

template <class Format, class Fn>
void check_scores(Fn fn, Report& report) {
  Random random;
  for_each_case([&](const AttentionCase& a) {
    const std::size_t q_stride = a.dim + a.n_k % 3;
    const std::size_t s_stride = a.n_k + a.dim % 3;
    Guarded<float> q(extent(a.n_q, q_stride, a.dim));
    Guarded<typename Format::Element> k(a.n_k * a.dim);
    Guarded<float> s(extent(a.n_q, s_stride, a.n_k));
    fill(q, random, a.n_k % 2 == 1);
    for (auto& element : k) element = Format::make(random.number());
    std::fill(s.begin(), s.end(), untouched);
    fn(s.data(), s_stride, q.data(), q_stride, a.n_q, k.data(), a.n_k, a.dim);
    report.expect(s.intact(), "wrote before s");
    for (std::size_t i = 0; i < a.n_q; ++i) {
      for (std::size_t j = 0; j < a.n_k; ++j) {
        double exact = 0.0;
        double mass = 0.0;
        for (std::size_t d = 0; d < a.dim; ++d) {
          const double product = static_cast<double>(q[i * q_stride + d]) * Format::value(k[j * a.dim + d]);
          exact += product;
          mass += std::fabs(product);
        }
        const float got = s[i * s_stride + j];
        report.near(static_cast<double>(got), exact, sum_tolerance(mass, a.dim),
                    "%zu queries, %zu keys, dim %zu: query %zu key %zu", a.n_q, a.n_k, a.dim, i, j);
        float alone = 0.0f;
        fn(&alone, 1, q.data() + i * q_stride, q_stride, 1, k.data() + j * a.dim, 1, a.dim);
        report.expect(same_bits(&alone, &got, 1),
                      "%zu queries, %zu keys, dim %zu: query %zu key %zu alone differs", a.n_q, a.n_k, a.dim,
                      i, j);
      }
      if (i + 1 < a.n_q) expect_untouched(&s[i * s_stride], a.n_k, s_stride, a, report);
    }
  });
}

template <class Format, class Fn>
void check_mix(Fn fn, Report& report) {
  Random random;
  for_each_case([&](const AttentionCase& a) {
    const std::size_t p_stride = a.n_k + a.dim % 3;
    const std::size_t y_stride = a.dim + a.n_k % 3;
    Guarded<float> p(extent(a.n_q, p_stride, a.n_k));
    Guarded<typename Format::Element> v(a.n_k * a.dim);
    Guarded<float> y(extent(a.n_q, y_stride, a.dim));
    Guarded<float> before(y.size());
    fill(p, random);
    for (auto& element : v) element = Format::make(random.number() * (a.dim % 2 == 1 ? 60000.0f : 1.0f));
    for (std::size_t i = 0; i < y.size(); ++i) {
      before[i] = y[i] = i % y_stride < a.dim ? random.number() : untouched;
    }
    fn(y.data(), y_stride, p.data(), p_stride, a.n_q, v.data(), a.n_k, a.dim);
    report.expect(y.intact(), "wrote before y");
    for (std::size_t i = 0; i < a.n_q; ++i) {
      for (std::size_t d = 0; d < a.dim; ++d) {
        double exact = static_cast<double>(before[i * y_stride + d]);
        double mass = std::fabs(exact);
        for (std::size_t j = 0; j < a.n_k; ++j) {
          const double product = static_cast<double>(p[i * p_stride + j]) * Format::value(v[j * a.dim + d]);
          exact += product;
          mass += std::fabs(product);
        }
        report.near(static_cast<double>(y[i * y_stride + d]), exact, sum_tolerance(mass, a.n_k),
                    "%zu queries, %zu keys, dim %zu: query %zu, %zu", a.n_q, a.n_k, a.dim, i, d);
      }
      float* const again = &before[i * y_stride];
      fn(again, y_stride, p.data() + i * p_stride, p_stride, 1, v.data(), a.n_k, a.dim);
      report.expect(same_bits(again, &y[i * y_stride], a.dim),
                    "%zu queries, %zu keys, dim %zu: query %zu alone differs", a.n_q, a.n_k, a.dim, i);
      if (i + 1 < a.n_q) expect_untouched(&y[i * y_stride], a.dim, y_stride, a, report);
    }
  });
}

}  // namespace

void check_scores_f32(const Kernels& kernels, Report& report) {
  check_scores<FormatF32>(kernels.scores_f32, report);
}
void check_scores_f16(const Kernels& kernels, Report& report) {
  check_scores<FormatF16>(kernels.scores_f16, report);
}
void check_mix_f32(const Kernels& kernels, Report& report) { check_mix<FormatF32>(kernels.mix_f32, report); }
void check_mix_f16(const Kernels& kernels, Report& report) { check_mix<FormatF16>(kernels.mix_f16, report); }

}  // namespace runnel::simd
