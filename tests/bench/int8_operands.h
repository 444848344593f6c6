// What the benchmarks of the int8 product multiply, and the rate they report.
#pragma once
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "lib/aligned.h"
#include "lib/linear/activation_buffer.h"
#include "quant/i8.h"
#include "simd/kernels.h"

namespace runnel::bench {

using simd::size_t;

inline void set_rate(benchmark::State& state, const char* name, size_t amount) {
  using benchmark::Counter;
  state.counters[name] = Counter(static_cast<double>(amount) * static_cast<double>(state.iterations()),
                                 Counter::kIsRate, Counter::kIs1000);
}

struct Matrix {
  AlignedVector<std::int8_t> codes;
  std::vector<std::uint16_t> scales;
  quant::PanelsI8 panels;

  Matrix(quant::VariantI8 variant, size_t rows, size_t cols) {
    const quant::ShapeI8 shape{variant, rows, cols};
    codes.resize(shape.n_codes());
    std::minstd_rand engine(1);
    for (std::int8_t& code : codes) code = static_cast<std::int8_t>(static_cast<int>(engine() % 255) - 127);
    scales.assign(shape.n_scales(), 0x3c00);  // a valid number in both formats
    panels = {shape, codes.data(), scales.data()};
  }
};

// Activations [n_tok, n]. n_massive of the entries of each row are far above the rest.
inline std::vector<float> activations(size_t n, size_t n_tok, size_t n_massive) {
  std::vector<float> x(n * n_tok);
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float& v : x) v = uniform(engine);
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t i = 0; i < n_massive; ++i) x[t * n + (i * 997 + t * 31) % n] = 1000.0f;
  }
  return x;
}

}  // namespace runnel::bench
