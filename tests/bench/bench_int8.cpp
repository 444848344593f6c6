// Speed of the int8 kernels on one core, beside what the core can do at best: a loop of nothing but int8
// products, and a plain read of the same memory. On a machine that is not quiet compare the best of several
// interleaved runs:
//
//   bench_int8 --benchmark_filter=avx512vnni --benchmark_enable_random_interleaving=true
//              --benchmark_repetitions=10 --benchmark_min_time=0.05
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "quant/i8.h"
#include "simd/kernels.h"
#include "tests/bench/int8_operands.h"
#include "tests/bench/rows.h"

namespace runnel::bench {
namespace {

using quant::VariantI8;
using simd::Kernels;

constexpr size_t n_cols = 2048;
constexpr size_t n_rows = 2048;
constexpr size_t read_rows = 65536;  // with n_cols columns 128 MiB: beyond all but server caches

// In range(0) streams side by side, prefetched range(1) bytes ahead.
void bench_read(benchmark::State& state, const Kernels& k) {
  const auto n_streams = static_cast<size_t>(state.range(0)), ahead = static_cast<size_t>(state.range(1));
  const std::vector<std::uint64_t> words(read_rows * n_cols / sizeof(std::uint64_t), 1);
  for (auto _ : state) benchmark::DoNotOptimize(k.read_words(words.data(), words.size(), n_streams, ahead));
  set_rate(state, "bytes", words.size() * sizeof(std::uint64_t));
}

void bench_peak(benchmark::State& state, const Kernels& k) {
  constexpr size_t n_rounds = 100'000;
  size_t products = 0;
  for (auto _ : state) products = k.peak_i8(n_rounds);
  set_rate(state, "MAC", products);
}

// range(0) tokens, each with range(1) carried entries.
void bench_matmul(benchmark::State& state, const Kernels& k, VariantI8 variant) {
  const auto n_tok = static_cast<size_t>(state.range(0));
  const Matrix w(variant, n_rows, n_cols);
  const std::vector<float> x = activations(n_cols, n_tok, static_cast<size_t>(state.range(1)));
  Int8Buffer buffer(k, n_tok, n_cols);
  const quant::ActivationsI8 rows = buffer.of(n_tok, n_cols);
  k.quantize_i8(rows, x.data(), n_cols, n_tok);
  AlignedVector<float> y(n_tok * n_rows);
  for (auto _ : state) {
    k.matmul_i8(y.data(), n_rows, rows, n_tok, w.panels, nullptr);
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC", n_rows * n_cols * n_tok);
}

// range(0) tokens.
void bench_matmul_bf16(benchmark::State& state, const Kernels& k, VariantI8 variant) {
  const auto n_tok = static_cast<size_t>(state.range(0));
  const Matrix w(variant, n_rows, n_cols);
  const std::vector<float> x = activations(n_cols, n_tok, 0);
  Bf16Buffer buffer(n_tok, n_cols);
  const quant::ActivationsBf16 rows = buffer.of(n_tok, n_cols);
  k.round_bf16(rows, x.data(), n_cols, n_tok);
  AlignedVector<simd::BF16> scratch(simd::bf16_scratch);
  AlignedVector<float> y(n_tok * n_rows);
  for (auto _ : state) {
    k.matmul_bf16(y.data(), n_rows, rows, n_tok, w.panels, nullptr, scratch.data());
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC", n_rows * n_cols * n_tok);
}

// One token against weights that come from memory.
void bench_decode(benchmark::State& state, const Kernels& k, VariantI8 variant) {
  const Matrix w(variant, read_rows, n_cols);
  const std::vector<float> x = activations(n_cols, 1, 1);
  Int8Buffer buffer(k, 1, n_cols);
  const quant::ActivationsI8 row = buffer.of(1, n_cols);
  k.quantize_i8(row, x.data(), n_cols, 1);
  AlignedVector<float> y(read_rows);
  for (auto _ : state) {
    k.matmul_i8(y.data(), read_rows, row, 1, w.panels, nullptr);
    benchmark::ClobberMemory();
  }
  set_rate(state, "bytes", w.panels.shape.bytes());
}

// What one input of a layer costs: quantised once, then read by the rows of w. n_massive entries for 10,000
// columns are carried, as in the demo model (runnel inspect).
struct LayerInput {
  const Matrix& w;
  std::vector<float> x;
  Int8Buffer buffer;
  AlignedVector<float> y;

  LayerInput(const Kernels& k, const Matrix& matrix, size_t n_tok, size_t n_massive)
      : w(matrix),
        x(activations(n_cols(), n_tok, (n_massive * n_cols() + 5000) / 10000)),
        buffer(k, n_tok, n_cols()),
        y(n_tok * w.panels.shape.n_rows) {}
  size_t n_cols() const { return w.panels.shape.n_cols; }
  void run(const Kernels& k, size_t n_tok) {
    const quant::ActivationsI8 rows = buffer.of(n_tok, n_cols());
    k.quantize_i8(rows, x.data(), n_cols(), n_tok);
    k.matmul_i8(y.data(), w.panels.shape.n_rows, rows, n_tok, w.panels, nullptr);
  }
};

// A layer of Llama 3.2 1B: range(0) tokens, range(1) 1 with outliers and 0 without. The difference is the
// cost of carrying them; the weights are the same memory, for where that lies makes a larger one.
void bench_layer(benchmark::State& state, const Kernels& k) {
  static const Matrix qkv(VariantI8::g128, 3072, 2048), output(VariantI8::g128, 2048, 2048),
      gate_up(VariantI8::g128, 16384, 2048), down(VariantI8::g128, 2048, 8192);
  const auto n_tok = static_cast<size_t>(state.range(0));
  const auto massive = [&](size_t n) { return state.range(1) != 0 ? n : 0; };
  LayerInput inputs[] = {{k, qkv, n_tok, massive(4)},
                         {k, output, n_tok, massive(16)},
                         {k, gate_up, n_tok, massive(2)},
                         {k, down, n_tok, massive(20)}};
  size_t products = 0;
  for (const LayerInput& input : inputs) products += input.w.panels.shape.n_codes() * n_tok;
  for (auto _ : state) {
    for (LayerInput& input : inputs) input.run(k, n_tok);
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC", products);
}

void bench_quantize(benchmark::State& state, const Kernels& k) {
  const auto n = static_cast<size_t>(state.range(0));
  const std::vector<float> x = activations(n, 1, 2);
  Int8Buffer buffer(k, 1, n);
  const quant::ActivationsI8 row = buffer.of(1, n);
  for (auto _ : state) {
    k.quantize_i8(row, x.data(), n, 1);
    benchmark::ClobberMemory();
  }
  set_rate(state, "numbers", n);
}

void register_row(const std::string& isa, const Kernels& k) {
  const auto add = [&](const std::string& name, auto bench) {
    return benchmark::RegisterBenchmark((name + "/" + isa).c_str(), bench);
  };
  add("read", [k](benchmark::State& s) { bench_read(s, k); })
      ->ArgsProduct({{1, 4}, {0, 512, 1536, 4096}})
      ->Unit(benchmark::kMillisecond);
  add("peak_i8", [k](benchmark::State& s) { bench_peak(s, k); });
  for (const VariantI8 variant : {VariantI8::g128, VariantI8::g32}) {
    const std::string suffix = variant == VariantI8::g128 ? "_g128" : "_g32";
    auto* matmul = add("matmul" + suffix, [k, variant](benchmark::State& s) { bench_matmul(s, k, variant); });
    for (const int n_tok : {1, 8, 64, 512}) matmul->Args({n_tok, 0})->Args({n_tok, 8});
    if (k.least_bf16() <= 512) {
      auto* in_bf16 = add("matmul_bf16" + suffix,
                          [k, variant](benchmark::State& s) { bench_matmul_bf16(s, k, variant); });
      for (const int n_tok : {64, 256, 512}) in_bf16->Arg(n_tok);
    }
    add("decode" + suffix, [k, variant](benchmark::State& s) {
      bench_decode(s, k, variant);
    })->Unit(benchmark::kMillisecond);
  }
  auto* layer = add("layer_1b", [k](benchmark::State& s) { bench_layer(s, k); });
  for (const int n_tok : {1, 512}) layer->Args({n_tok, 0})->Args({n_tok, 1})->Unit(benchmark::kMillisecond);
  add("quantize", [k](benchmark::State& s) { bench_quantize(s, k); })->Arg(2048)->Arg(8192);
}

void register_all() {
  for_each_row([](const simd::IsaRow& row, const Kernels& kernels) {
    if (row.kernels->matmul_i8 != nullptr) register_row(row.name, kernels);
  });
}

}  // namespace
}  // namespace runnel::bench

int main(int argc, char** argv) { return runnel::bench::run(argc, argv, runnel::bench::register_all); }
