#include <cmath>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

struct MatmulCase {
  std::size_t n_rows, n_tok, n_cols;
  bool adds;
  std::size_t x_stride() const { return n_cols + n_rows % 3; }
  std::size_t y_stride() const { return n_rows + n_cols % 5; }
  std::size_t n_panels() const { return (n_rows + panel_rows - 1) / panel_rows; }
};

void compare_with_formula(const MatmulCase& m, const Guarded<float>& got, const Guarded<float>& before,
                          const Guarded<float>& x, const Guarded<float>& panels, Report& report) {
  for (std::size_t t = 0; t < m.n_tok; ++t) {
    for (std::size_t r = 0; r < m.n_rows; ++r) {
      double exact = static_cast<double>(before[t * m.y_stride() + r]);
      double mass = std::fabs(exact);
      for (std::size_t c = 0; c < m.n_cols; ++c) {
        const float w = panels[r / panel_rows * m.n_cols * panel_rows + c * panel_rows + r % panel_rows];
        const double product = static_cast<double>(w) * static_cast<double>(x[t * m.x_stride() + c]);
        exact += product;
        mass += std::fabs(product);
      }
      report.near(static_cast<double>(got[t * m.y_stride() + r]), exact, sum_tolerance(mass, m.n_cols),
                  "%zu rows, %zu tokens, %zu columns: token %zu row %zu", m.n_rows, m.n_tok, m.n_cols, t, r);
    }
    if (t + 1 == m.n_tok) continue;
    for (std::size_t r = m.n_rows; r < m.y_stride(); ++r) {
      report.expect(same_bits(&got[t * m.y_stride() + r], &untouched, 1),
                    "%zu rows, %zu tokens: wrote between rows", m.n_rows, m.n_tok);
    }
  }
}

void check_case(const Kernels& kernels, const MatmulCase& m, Random& random, Report& report) {
  Guarded<float> panels(m.n_panels() * m.n_cols * panel_rows);
  Guarded<float> x(extent(m.n_tok, m.x_stride(), m.n_cols));
  Guarded<float> y(extent(m.n_tok, m.y_stride(), m.n_rows));
  Guarded<float> before(y.size());
  Guarded<float> again(y.size());
  fill(panels, random);
  fill(x, random, m.n_tok % 2 == 1);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool is_sum = m.adds && i % m.y_stride() < m.n_rows;
    before[i] = is_sum ? random.number() : 0.0f;
    y[i] = again[i] = is_sum ? before[i] : untouched;
  }
  kernels.matmul_panels(y.data(), m.y_stride(), m.adds, x.data(), m.x_stride(), m.n_tok, panels.data(),
                        m.n_rows, m.n_cols);
  report.expect(y.intact(), "wrote before y");
  compare_with_formula(m, y, before, x, panels, report);

  for (std::size_t t = 0; t < m.n_tok; ++t) {  // token by token and panel by panel
    for (std::size_t p = 0; p < m.n_panels(); ++p) {
      const std::size_t r = p * panel_rows;
      kernels.matmul_panels(again.data() + t * m.y_stride() + r, m.y_stride(), m.adds,
                            x.data() + t * m.x_stride(), m.x_stride(), 1,
                            panels.data() + p * m.n_cols * panel_rows,
                            r + panel_rows <= m.n_rows ? panel_rows : m.n_rows - r, m.n_cols);
    }
  }
  report.expect(same_bits(y.data(), again.data(), y.size()),
                "%zu rows, %zu tokens, %zu columns: a split has other bits", m.n_rows, m.n_tok, m.n_cols);
}

template <class Format, class Fn>
void check_pack_panel(Fn fn, Report& report) {
  using T = typename Format::Element;
  Random random;
  for (std::size_t n_rows = 0; n_rows <= panel_rows; ++n_rows) {
    for (std::size_t n_cols = 0; n_cols <= 70; ++n_cols) {
      const std::size_t stride = n_cols + n_cols % 3;
      Guarded<T> w(extent(n_rows, stride, n_cols));
      Guarded<float> panel(n_cols * panel_rows);
      for (T& element : w) element = Format::make(random.number(true));
      fn(panel.data(), w.data(), stride, n_rows, n_cols);
      report.expect(panel.intact(), "[%zu, %zu] wrote before the panel", n_rows, n_cols);
      for (std::size_t i = 0; i < panel.size(); ++i) {
        const std::size_t r = i % panel_rows;
        const auto expected =
            static_cast<float>(r < n_rows ? Format::value(w[r * stride + i / panel_rows]) : 0.0);
        report.expect(same_bits(&panel[i], &expected, 1), "[%zu, %zu] row %zu column %zu", n_rows, n_cols, r,
                      i / panel_rows);
      }
    }
  }
}

}  // namespace

void check_matmul_panels(const Kernels& kernels, Report& report) {
  Random random;
  for (const std::size_t n_rows : Sizes{0, 1, 15, 16, 17, 32, 33, 47, 50}) {
    for (std::size_t n_tok = 0; n_tok <= 15; ++n_tok) {
      for (const std::size_t n_cols : Sizes{0, 1, 2, 3, 7, 16, 33})
        check_case(kernels, {n_rows, n_tok, n_cols, true}, random, report);
      check_case(kernels, {n_rows, n_tok, n_rows % 3, false}, random, report);
    }
  }
  check_case(kernels, {300, 29, 40, true}, random, report);
  check_case(kernels, {529, 3, 257, true}, random, report);
  for (const bool adds : {false, true}) check_case(kernels, {70, 37, 530, adds}, random, report);
}

void check_pack_panel_f32(const Kernels& kernels, Report& report) {
  check_pack_panel<FormatF32>(kernels.pack_panel_f32, report);
}
void check_pack_panel_f16(const Kernels& kernels, Report& report) {
  check_pack_panel<FormatF16>(kernels.pack_panel_f16, report);
}
void check_pack_panel_bf16(const Kernels& kernels, Report& report) {
  check_pack_panel<FormatBf16>(kernels.pack_panel_bf16, report);
}

}  // namespace runnel::simd
