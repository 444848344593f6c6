#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

struct FormatI8 {
  using Element = std::int8_t;
  static double value(std::int8_t w) { return w; }
  // Numbers of the cases go from -60000 to 60000: any code will do.
  static std::int8_t make(float v) { return static_cast<std::int8_t>(static_cast<int>(v * 127.0f) % 128); }
};

// Numbers that are summed over and lie side by side.
template <class Format>
constexpr std::size_t together = 1;
template <>
constexpr std::size_t together<FormatI8> = dot_bytes;

template <class Format>
std::size_t filled_up(std::size_t n) {
  return (n + together<Format> - 1) / together<Format> * together<Format>;
}
// Where number d of key j lies, and number d of value j.
template <class Format>
std::size_t key_at(std::size_t dim, std::size_t j, std::size_t d) {
  constexpr std::size_t side = together<Format>;
  return j / block_keys * block_keys * filled_up<Format>(dim) +
         (d / side * block_keys + j % block_keys) * side + d % side;
}
template <class Format>
std::size_t value_at(std::size_t dim, std::size_t j, std::size_t d) {
  constexpr std::size_t side = together<Format>;
  return (j / side * dim + d) * side + j % side;
}

// What rounding n factors to 16 bits may change, for each unit of what they meet.
template <class Format>
double factor_tolerance(const float* factors, std::size_t n) {
  return together<Format> == 1 ? 0.0 : rounding_tolerance(factors, n);
}

struct AttentionCase {
  std::size_t n_q, n_k, dim;
};

// Every shape around the tiles' edges, and some as models have them.
template <class F>
void for_each_case(F check) {
  for (std::size_t dim = 0; dim <= 40; ++dim) {
    for (const std::size_t n_q : Sizes{0, 1, 2, 3, 4, 5, 6, 7}) {
      for (const std::size_t n_k : Sizes{0, 1, 3, 4, 5, 9}) check(AttentionCase{n_q, n_k, dim});
    }
  }
  for (const std::size_t dim : Sizes{47, 64, 65, 80, 96, 112, 127, 128, 129, 130, 192, 256, 300}) {
    check(AttentionCase{1, 33, dim});
    check(AttentionCase{8, 17, dim});
  }
  // Queries that share a key by twos, threes and more, with so many keys and numbers that tiles are whole.
  for (const std::size_t n_q : Sizes{2, 3, 9, 12, 14, 16}) {
    for (const std::size_t dim : Sizes{80, 131, 144}) check(AttentionCase{n_q, 14, dim});
  }
  check(AttentionCase{8, 70, 80});
  check(AttentionCase{36, 257, 64});
}

void expect_untouched(const float* row, std::size_t length, std::size_t stride, const AttentionCase& a,
                      Report& report) {
  for (std::size_t i = length; i < stride; ++i) {
    report.expect(same_bits(row + i, &untouched, 1), "%zu queries, %zu keys, dim %zu: wrote between rows",
                  a.n_q, a.n_k, a.dim);
  }
}

// score(s, s_stride, q, q_stride, n_q, k, k_scales, n_blocks, dim)
template <class Format, bool has_scales, class Score>
void check_scores(Score score, Report& report) {
  Random random;
  for_each_case([&](const AttentionCase& a) {
    const std::size_t n_blocks = a.n_k / 3, n_k = n_blocks * block_keys;
    const std::size_t q_stride = a.dim + a.n_k % 3;
    const std::size_t s_stride = n_k + a.dim % 3;
    Guarded<float> q(extent(a.n_q, q_stride, a.dim));
    Guarded<typename Format::Element> k(n_k * filled_up<Format>(a.dim));
    Guarded<float> scales(n_k);
    Guarded<float> s(extent(a.n_q, s_stride, n_k));
    fill(q, random, a.n_k % 2 == 1);
    for (float& scale : scales) scale = has_scales ? std::fabs(random.uniform()) : 1.0f;
    for (auto& element : k) element = Format::make(random.number());
    std::fill(s.begin(), s.end(), untouched);
    score(s.data(), s_stride, q.data(), q_stride, a.n_q, k.data(), scales.data(), n_blocks, a.dim);
    report.expect(s.intact(), "wrote before s");
    for (std::size_t i = 0; i < a.n_q; ++i) {
      for (std::size_t j = 0; j < n_k; ++j) {
        double exact = 0.0;
        double mass = 0.0;
        double key_mass = 0.0;
        for (std::size_t d = 0; d < a.dim; ++d) {
          const double number = Format::value(k[key_at<Format>(a.dim, j, d)]);
          const double product = static_cast<double>(q[i * q_stride + d]) * number;
          exact += product;
          mass += std::fabs(product);
          key_mass += std::fabs(number);
        }
        const double rounding = key_mass * factor_tolerance<Format>(q.data() + i * q_stride, a.dim);
        const double scale = static_cast<double>(scales[j]);
        report.near(static_cast<double>(s[i * s_stride + j]), exact * scale,
                    sum_tolerance(mass * scale, a.dim + 1) + rounding * scale,
                    "%zu queries, %zu keys, dim %zu: query %zu key %zu", a.n_q, n_k, a.dim, i, j);
      }
      for (std::size_t b = 0; b < n_blocks; ++b) {
        float alone[block_keys];
        score(alone, block_keys, q.data() + i * q_stride, q_stride, 1,
              k.data() + key_at<Format>(a.dim, b * block_keys, 0), scales.data() + b * block_keys, 1, a.dim);
        report.expect(same_bits(alone, &s[i * s_stride + b * block_keys], block_keys),
                      "%zu queries, %zu keys, dim %zu: query %zu block %zu alone differs", a.n_q, n_k, a.dim,
                      i, b);
      }
      if (i + 1 < a.n_q) expect_untouched(&s[i * s_stride], n_k, s_stride, a, report);
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
    Guarded<typename Format::Element> v(filled_up<Format>(a.n_k) * a.dim);
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
        double value_mass = 0.0;
        for (std::size_t j = 0; j < a.n_k; ++j) {
          const double number = Format::value(v[value_at<Format>(a.dim, j, d)]);
          const double product = static_cast<double>(p[i * p_stride + j]) * number;
          exact += product;
          mass += std::fabs(product);
          value_mass += std::fabs(number);
        }
        const double rounding = value_mass * factor_tolerance<Format>(p.data() + i * p_stride, a.n_k);
        report.near(static_cast<double>(y[i * y_stride + d]), exact, sum_tolerance(mass, a.n_k) + rounding,
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

// Sums at their largest: all factors and all bytes have the same sign, and are as large as they can be.
struct Extremes {
  std::size_t n;  // that are summed over
  std::size_t n_q;
  float factor;
  std::int8_t byte;

  std::vector<float> factors() const { return std::vector<float>(n_q * n, factor); }
  std::vector<std::int8_t> bytes(std::size_t n_sums) const {
    return std::vector<std::int8_t>(n * n_sums, byte);
  }
  void expect(const std::vector<float>& sums, Report& report) const {
    const double expected = static_cast<double>(factor) * byte * static_cast<double>(n);
    for (const float sum : sums)
      report.near(static_cast<double>(sum), expected, std::fabs(expected) * 1e-5, "extremes, %zu summed", n);
  }
};

template <class Check>
void for_each_extremes(Check check) {
  for (const std::size_t n : Sizes{256, 1024}) {
    for (const std::size_t n_q : Sizes{1, 8}) {
      for (const float factor : {0.75f, -0.75f}) {
        for (const int byte : {127, -128}) check(Extremes{n, n_q, factor, static_cast<std::int8_t>(byte)});
      }
    }
  }
}

void check_scores_of_extremes(const Kernels& kernels, Report& report) {
  for_each_extremes([&](const Extremes& e) {
    const std::vector<float> scales(block_keys, 1.0f);
    std::vector<float> s(e.n_q * block_keys);
    kernels.scores_i8(s.data(), block_keys, e.factors().data(), e.n, e.n_q, e.bytes(block_keys).data(),
                      scales.data(), 1, e.n);
    e.expect(s, report);
  });
}

void check_mix_of_extremes(const Kernels& kernels, Report& report) {
  constexpr std::size_t dim = 64;
  for_each_extremes([&](const Extremes& e) {
    std::vector<float> y(e.n_q * dim);
    kernels.mix_i8(y.data(), dim, e.factors().data(), e.n, e.n_q, e.bytes(dim).data(), e.n, dim);
    e.expect(y, report);
  });
}

}  // namespace

void check_scores_f32(const Kernels& kernels, Report& report) {
  const auto score = [&](float* s, std::size_t s_stride, const float* q, std::size_t q_stride,
                         std::size_t n_q, const float* k, const float* /*k_scales*/, std::size_t n_blocks,
                         std::size_t dim) {
    kernels.scores_f32(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
  };
  check_scores<FormatF32, false>(score, report);
}
void check_scores_f16(const Kernels& kernels, Report& report) {
  const auto score = [&](float* s, std::size_t s_stride, const float* q, std::size_t q_stride,
                         std::size_t n_q, const F16* k, const float* /*k_scales*/, std::size_t n_blocks,
                         std::size_t dim) {
    kernels.scores_f16(s, s_stride, q, q_stride, n_q, k, n_blocks, dim);
  };
  check_scores<FormatF16, false>(score, report);
}
void check_scores_i8(const Kernels& kernels, Report& report) {
  check_scores<FormatI8, true>(kernels.scores_i8, report);
  check_scores_of_extremes(kernels, report);
}
void check_mix_i8(const Kernels& kernels, Report& report) {
  check_mix<FormatI8>(kernels.mix_i8, report);
  check_mix_of_extremes(kernels, report);
}

void check_unfetched_i8(const Kernels& kernels, Report& report) {
  for (const std::size_t n : Sizes{0, 1, 63, 64, 16384}) {
    for (std::size_t n_q = 1; n_q <= 33; ++n_q)
      report.expect(kernels.unfetched_i8(n, n_q) <= n, "%zu of %zu bytes for %zu queries",
                    kernels.unfetched_i8(n, n_q), n, n_q);
  }
}

void check_quantize_vector(const Kernels& kernels, Report& report) {
  Random random;
  for (std::size_t n = 0; n <= 300; ++n) {
    Guarded<float> x(n);
    Guarded<std::int8_t> y(n);
    fill(x, random);
    if (n > 2) x[n / 2] = n % 3 == 0 ? 1e30f : -1e6f;
    float scale = kernels.quantize_vector(y.data(), 1, 1, x.data(), n);
    float max = 0;
    for (const float v : x) max = std::max(max, std::fabs(v));
    report.expect(scale == max / 127.0f, "n %zu: scale", n);
    for (std::size_t i = 0; i < n; ++i)
      report.expect(max == 0 || static_cast<float>(y[i]) == std::nearbyint(x[i] * (127.0f / max)),
                    "n %zu: number %zu", n, i);
    report.expect(y.intact(), "n %zu: wrote before y", n);
    if (n == 0) continue;
    for (const std::size_t side : {std::size_t{1}, dot_bytes}) {
      const std::size_t stride = 16 * side;
      Guarded<std::int8_t> apart((n - 1) / side * stride + (n - 1) % side + 1);
      std::fill(apart.begin(), apart.end(), std::int8_t{99});
      report.expect(kernels.quantize_vector(apart.data(), side, stride, x.data(), n) == scale,
                    "n %zu, %zu side by side: scale", n, side);
      for (std::size_t i = 0; i < apart.size(); ++i)
        report.expect(apart[i] == (i % stride < side ? y[i / stride * side + i % stride] : 99),
                      "n %zu, %zu side by side: byte %zu", n, side, i);
      report.expect(apart.intact(), "n %zu, %zu side by side: wrote before y", n, side);
    }
    std::fill(x.begin(), x.end(), 1e-38f);
    scale = kernels.quantize_vector(y.data(), 1, 1, x.data(), n);
    report.expect(scale == 0 && y[n - 1] == 0, "n %zu: too small for a scale", n);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      x[n - 1] = bad;
      y[0] = 1;
      scale = kernels.quantize_vector(y.data(), 1, 1, x.data(), n);
      report.expect(std::isnan(scale) && y[0] == 0, "n %zu: not finite", n);
    }
    report.expect(y.intact(), "n %zu: wrote before y where there is no scale", n);
  }
}
void check_mix_f32(const Kernels& kernels, Report& report) { check_mix<FormatF32>(kernels.mix_f32, report); }
void check_mix_f16(const Kernels& kernels, Report& report) { check_mix<FormatF16>(kernels.mix_f16, report); }

}  // namespace runnel::simd
