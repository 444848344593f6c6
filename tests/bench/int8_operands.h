// What the benchmarks of the int8 product multiply, and the rate they report.
#pragma once
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "lib/aligned.h"
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

template <class Code>
struct BasicActivations {
  size_t n, n_tok;
  std::vector<float> x;
  AlignedVector<Code> codes;
  AlignedVector<float> scales;
  AlignedVector<std::int32_t> offsets;
  AlignedVector<std::int8_t> split;
  std::vector<quant::CarriedEntry> carried;
  std::vector<std::uint32_t> n_carried;
  std::vector<float> maxima;

  // n_massive of the entries of each row are far above the rest.
  BasicActivations(size_t n_cols, size_t n_rows, size_t n_massive)
      : n(n_cols),
        n_tok(n_rows),
        x(n * n_tok),
        codes(quant::i8_room(n_tok) * quant::i8_padded(n)),
        scales(quant::i8_room(n_tok) * quant::i8_blocks(n)),
        offsets(scales.size()),
        split(scales.size() * quant::i8_split),
        carried(n_tok * quant::i8_max_carried(n)),
        n_carried(n_tok),
        maxima(n_tok * quant::i8_blocks(n)) {
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (float& v : x) v = uniform(engine);
    for (size_t t = 0; t < n_tok; ++t) {
      for (size_t i = 0; i < n_massive; ++i) x[t * n + (i * 997 + t * 31) % n] = 1000.0f;
    }
  }

  // As a row of kernels reads them.
  quant::Activations<Code> rows(const simd::Kernels& kernels) {
    return {n,
            quant::i8_width(n_tok),
            codes.data(),
            scales.data(),
            offsets.data(),
            carried.data(),
            n_carried.data(),
            maxima.data(),
            kernels.reads_split_i8() ? split.data() : nullptr};
  }
};
using Activations = BasicActivations<std::int8_t>;

}  // namespace runnel::bench
