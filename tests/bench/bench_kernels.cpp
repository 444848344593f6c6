// Speed of the kernels on one core, beside what the core can do at best: a plain read of the same memory for
// the products with a vector, a loop of fused multiply-adds for the others.
//
//   bench_kernels --benchmark_filter='matvec|read'
//   OMP_NUM_THREADS=1 bench_kernels --benchmark_filter='matmul|sgemm|peak'
#include <benchmark/benchmark.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quant/float16.h"
#include "quant/q8_0.h"
#include "simd/kernels.h"
#include "tests/bench/int8_operands.h"
#include "tests/bench/rows.h"
#if defined(RUNNEL_BENCH_BLAS)
#include <cblas.h>
#endif

namespace runnel::bench {
namespace {

using benchmark::Counter;
using simd::BF16;
using simd::F16;
using simd::Kernels;
using simd::size_t;

constexpr size_t n_cols = 4096;                     // of the weight matrices
constexpr size_t weight_bytes = size_t{256} << 20;  // beyond all but server caches

std::vector<float> random_floats(size_t n) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> x(n);
  for (float& v : x) v = uniform(engine);
  return x;
}

template <class T>
T make(float v);
template <>
float make<float>(float v) {
  return v;
}
template <>
F16 make<F16>(float v) {
  return quant::f32_to_f16(v);
}
template <>
std::int8_t make<std::int8_t>(float v) {
  return static_cast<std::int8_t>(v * 127.0f);
}

// weight_bytes of valid numbers for every 16-bit and 32-bit float format and Q8_0 alike: the bytes 0x3c.
const std::vector<unsigned char>& weights() {
  static const std::vector<unsigned char> bytes(weight_bytes, 0x3c);
  return bytes;
}

void set_bytes(benchmark::State& state, size_t bytes) {
  state.counters["bytes"] = Counter(static_cast<double>(bytes) * static_cast<double>(state.iterations()),
                                    Counter::kIsRate, Counter::kIs1000);
}
void set_flops(benchmark::State& state, size_t flops) {
  state.counters["flop"] = Counter(static_cast<double>(flops) * static_cast<double>(state.iterations()),
                                   Counter::kIsRate, Counter::kIs1000);
}

void bench_read(benchmark::State& state, decltype(Kernels::read_words) fn) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(weights().data());
  const auto n_streams = static_cast<size_t>(state.range(0)), ahead = static_cast<size_t>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(fn(words, weight_bytes / sizeof *words, n_streams, ahead));
  set_bytes(state, weight_bytes);
}

// row_bytes: of one row of n_cols weights.
template <class T, class Fn>
void bench_matvec(benchmark::State& state, Fn fn, size_t row_bytes) {
  const size_t n_rows = weight_bytes / row_bytes;
  const auto* w = reinterpret_cast<const T*>(weights().data());
  const std::vector<float> x = random_floats(n_cols);
  std::vector<float> y(n_rows);
  for (auto _ : state) {
    fn(y.data(), w, n_rows, n_cols, x.data());
    benchmark::ClobberMemory();
  }
  set_bytes(state, n_rows * row_bytes);
}

// Either of the two; reports an addition and a multiplication for each multiply-add.
void bench_peak(benchmark::State& state, decltype(Kernels::peak_f32) fn) {
  constexpr size_t rounds = 1'000'000;
  size_t n_multiply_adds = 0;
  for (auto _ : state) n_multiply_adds = fn(rounds);
  set_flops(state, 2 * n_multiply_adds);
}

struct MatmulShape {
  size_t n_rows = 2048, n_cols = 2048, n_tok = 256;
  size_t flops() const { return 2 * n_rows * n_cols * n_tok; }
};

void bench_matmul(benchmark::State& state, decltype(Kernels::matmul_panels) fn) {
  MatmulShape shape;
  shape.n_tok = static_cast<size_t>(state.range(0));
  const std::vector<float> panels = random_floats(shape.n_rows * shape.n_cols);
  const std::vector<float> x = random_floats(shape.n_tok * shape.n_cols);
  std::vector<float> y(shape.n_tok * shape.n_rows);
  for (auto _ : state) {
    fn(y.data(), shape.n_rows, false, x.data(), shape.n_cols, shape.n_tok, panels.data(), shape.n_rows,
       shape.n_cols);
    benchmark::ClobberMemory();
  }
  set_flops(state, shape.flops());
}

std::vector<F16> random_f16(size_t n) {
  std::vector<F16> w;
  for (const float v : random_floats(n)) w.push_back(make<F16>(v));
  return w;
}

// From F16 weights, a block of so many rows and columns after the other: laying them out is part of it.
constexpr size_t block_rows = 256, block_cols = 512;
template <class Work>
void for_each_block(const MatmulShape& shape, Work work) {
  for (size_t r = 0; r < shape.n_rows; r += block_rows) {
    for (size_t c = 0; c < shape.n_cols; c += block_cols) work(r, c);
  }
}

void bench_f16_floats(benchmark::State& state, const Kernels& k) {
  MatmulShape shape;
  shape.n_tok = static_cast<size_t>(state.range(0));
  const std::vector<F16> w = random_f16(shape.n_rows * shape.n_cols);
  const std::vector<float> x = random_floats(shape.n_tok * shape.n_cols);
  std::vector<float> panels(block_rows * block_cols);
  std::vector<float> y(shape.n_tok * shape.n_rows);
  for (auto _ : state) {
    for_each_block(shape, [&](size_t r, size_t c) {
      for (size_t i = 0; i < block_rows; i += simd::panel_rows) {
        k.pack_panel_f16(panels.data() + i * block_cols, w.data() + (r + i) * shape.n_cols + c, shape.n_cols,
                         simd::panel_rows, block_cols);
      }
      k.matmul_panels(y.data() + r, shape.n_rows, c != 0, x.data() + c, shape.n_cols, shape.n_tok,
                      panels.data(), block_rows, block_cols);
    });
    benchmark::ClobberMemory();
  }
  set_flops(state, shape.flops());
}

void bench_f16_int16(benchmark::State& state, const Kernels& k) {
  MatmulShape shape;
  shape.n_tok = static_cast<size_t>(state.range(0));
  const std::vector<F16> w = random_f16(shape.n_rows * shape.n_cols);
  const std::vector<float> x = activations(shape.n_cols, shape.n_tok, 0);
  Int16Buffer buffer(k, shape.n_tok, shape.n_cols);
  const quant::ActivationsI16 rows = buffer.of(shape.n_tok, shape.n_cols);
  const quant::ShapeI16 block{block_rows, block_cols};
  std::vector<std::int16_t> codes(block.n_codes());
  std::vector<std::uint16_t> scales(block.n_scales());
  std::vector<float> y(shape.n_tok * shape.n_rows);
  for (auto _ : state) {
    k.quantize_i16(rows, x.data(), shape.n_cols, shape.n_tok);
    for_each_block(shape, [&](size_t r, size_t c) {
      k.pack_i16_f16({block, codes.data(), scales.data()}, w.data() + r * shape.n_cols + c, shape.n_cols);
      k.matmul_i16(y.data() + r, shape.n_rows, c != 0, rows, c, shape.n_tok,
                   {block, codes.data(), scales.data()});
    });
    benchmark::ClobberMemory();
  }
  set_flops(state, shape.flops());
}

#if defined(RUNNEL_BENCH_BLAS)
void bench_sgemm(benchmark::State& state) {
  MatmulShape shape;
  shape.n_tok = static_cast<size_t>(state.range(0));
  const auto n_rows = static_cast<int>(shape.n_rows);
  const auto cols = static_cast<int>(shape.n_cols);
  const auto n_tok = static_cast<int>(shape.n_tok);
  const std::vector<float> w = random_floats(shape.n_rows * shape.n_cols);
  const std::vector<float> x = random_floats(shape.n_tok * shape.n_cols);
  std::vector<float> y(shape.n_tok * shape.n_rows);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n_tok, n_rows, cols, 1.0f, x.data(), cols, w.data(),
                cols, 0.0f, y.data(), n_rows);
    benchmark::ClobberMemory();
  }
  set_flops(state, shape.flops());
}
#endif

template <class T, class Fn>
void bench_pack_panel(benchmark::State& state, Fn fn) {
  std::vector<T> w;
  for (const float v : random_floats(simd::panel_rows * n_cols)) w.push_back(make<T>(v));
  std::vector<float> panel(w.size());
  for (auto _ : state) {
    fn(panel.data(), w.data(), n_cols, simd::panel_rows, n_cols);
    benchmark::ClobberMemory();
  }
  set_bytes(state, w.size() * sizeof(T));
}

// From memory: all blocks of a matrix, range(0) megabytes of it.
void bench_pack_i16(benchmark::State& state, const Kernels& k) {
  const size_t n_rows = static_cast<size_t>(state.range(0)) * (size_t{1} << 20) / (n_cols * sizeof(F16));
  const std::vector<F16> w(n_rows * n_cols, make<F16>(0.5f));
  const quant::ShapeI16 block{block_rows, block_cols};
  std::vector<std::int16_t> codes(block.n_codes());
  std::vector<std::uint16_t> scales(block.n_scales());
  for (auto _ : state) {
    for_each_block({n_rows, n_cols, 0}, [&](size_t r, size_t c) {
      k.pack_i16_f16({block, codes.data(), scales.data()}, w.data() + r * n_cols + c, n_cols);
    });
    benchmark::ClobberMemory();
  }
  set_bytes(state, w.size() * sizeof(F16));
}

void bench_pack_q8_0(benchmark::State& state, const simd::Kernels& k) {
  const quant::ShapeI8 shape{quant::VariantI8::g32, simd::panel_rows, n_cols};
  const std::vector<quant::BlockQ8_0> w(shape.n_scales());
  std::vector<std::int8_t> codes(shape.n_codes());
  std::vector<std::uint16_t> scales(shape.n_scales());
  for (auto _ : state) {
    k.pack_q8_0({shape, codes.data(), scales.data()}, w.data());
    benchmark::ClobberMemory();
  }
  set_bytes(state, shape.bytes());
}

// One block of keys or values against range(0) queries that share it; range(1): their dimension.
constexpr size_t n_keys = 256;

template <class T, class Fn>
void bench_scores(benchmark::State& state, Fn fn) {
  const auto n_q = static_cast<size_t>(state.range(0));
  const auto dim = static_cast<size_t>(state.range(1));
  const std::vector<float> q = random_floats(n_q * dim);
  std::vector<T> k;
  for (const float v : random_floats(n_keys * dim)) k.push_back(make<T>(v));
  std::vector<float> s(n_q * n_keys);
  for (auto _ : state) {
    fn(s.data(), n_keys, q.data(), dim, n_q, k.data(), n_keys / simd::block_keys, dim);
    benchmark::ClobberMemory();
  }
  set_flops(state, 2 * n_q * n_keys * dim);
}

template <class T, class Fn>
void bench_mix(benchmark::State& state, Fn fn) {
  const auto n_q = static_cast<size_t>(state.range(0));
  const auto dim = static_cast<size_t>(state.range(1));
  const std::vector<float> p = random_floats(n_q * n_keys);
  std::vector<T> v;
  for (const float element : random_floats(n_keys * dim)) v.push_back(make<T>(element));
  std::vector<float> y(n_q * dim);
  for (auto _ : state) {
    fn(y.data(), dim, p.data(), n_keys, n_q, v.data(), n_keys, dim);
    benchmark::ClobberMemory();
  }
  set_flops(state, 2 * n_q * n_keys * dim);
}

// call(y, x, n) on n numbers that stay in the L1 cache; reports numbers a second.
template <class Call>
void bench_elementwise(benchmark::State& state, Call call) {
  const std::vector<float> x = random_floats(2048);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    call(y.data(), x.data(), x.size());
    benchmark::ClobberMemory();
  }
  state.counters["numbers"] = Counter(static_cast<double>(x.size()) * static_cast<double>(state.iterations()),
                                      Counter::kIsRate, Counter::kIs1000);
}

void register_attention(const std::string& isa, const Kernels& k) {
  const auto add = [&](const std::string& name, auto bench) {
    auto* entry = benchmark::RegisterBenchmark((name + "/" + isa).c_str(), bench);
    for (const int dim : {64, 128}) {
      for (const int n_q : {1, 4, 8, 32}) entry->Args({n_q, dim});
    }
  };
  add("scores_f32", [fn = k.scores_f32](benchmark::State& state) { bench_scores<float>(state, fn); });
  add("scores_f16", [fn = k.scores_f16](benchmark::State& state) { bench_scores<F16>(state, fn); });
  add("scores_i8", [fn = k.scores_i8](benchmark::State& state) {
    const std::vector<float> scales(n_keys, 1.0f);
    bench_scores<std::int8_t>(state, [&](float* s, size_t s_stride, const float* q, size_t q_stride,
                                         size_t n_q, const std::int8_t* keys, size_t n_blocks, size_t dim) {
      fn(s, s_stride, q, q_stride, n_q, keys, scales.data(), n_blocks, dim);
    });
  });
  add("mix_f32", [fn = k.mix_f32](benchmark::State& state) { bench_mix<float>(state, fn); });
  add("mix_f16", [fn = k.mix_f16](benchmark::State& state) { bench_mix<F16>(state, fn); });
  add("mix_i8", [fn = k.mix_i8](benchmark::State& state) { bench_mix<std::int8_t>(state, fn); });
}

void register_elementwise(const std::string& isa, const Kernels& k) {
  const auto add = [&](const std::string& name, auto call) {
    benchmark::RegisterBenchmark((name + "/" + isa).c_str(),
                                 [call](benchmark::State& state) { bench_elementwise(state, call); });
  };
  add("silu_mul", [k](float* y, const float* x, size_t n) { k.silu_mul(y, x, x, n); });
  add("gelu", [k](float* y, const float* x, size_t n) { k.gelu(y, x, n); });
  add("rms_norm", [k](float* y, const float* x, size_t n) { k.rms_norm(y, x, x, n, 1e-5f); });
  // Of what it made of them before: all numbers take as long, and a copy would take longer.
  add("softmax_step", [k](float* y, const float* /*x*/, size_t n) {
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    k.softmax_step(y, n, &max, &sum);
    benchmark::DoNotOptimize(sum);
  });
}

// As the products with one vector are called.
template <class T>
auto one_token(void (*few)(float*, size_t, const T*, size_t, size_t, const float*, size_t, size_t)) {
  return [few](float* y, const T* w, size_t rows, size_t cols, const float* x) {
    few(y, rows, w, rows, cols, x, cols, 1);
  };
}

void register_row(const std::string& isa, const Kernels& k) {
  const auto name = [&](const char* kernel) { return kernel + ("/" + isa); };
  const auto matvec = [&](const char* kernel, auto bench) {
    benchmark::RegisterBenchmark(name(kernel).c_str(), bench)->Unit(benchmark::kMillisecond);
  };
  benchmark::RegisterBenchmark(name("read_words").c_str(), bench_read, k.read_words)
      ->ArgsProduct({{1, 4}, {0, 512, 1536, 4096}})
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(name("peak_f32").c_str(), bench_peak, k.peak_f32);
  benchmark::RegisterBenchmark(name("peak_i8").c_str(), bench_peak, k.peak_i8);
  benchmark::RegisterBenchmark(name("peak_i16").c_str(), bench_peak, k.peak_i16);
  const auto product = [&](const char* kernel, auto bench) {
    benchmark::RegisterBenchmark(name(kernel).c_str(), [k, bench](benchmark::State& s) { bench(s, k); })
        ->Unit(benchmark::kMillisecond)
        ->Arg(256)
        ->Arg(8);
  };
  product("f16_floats", bench_f16_floats);
  product("f16_int16", bench_f16_int16);
  matvec("matvec_f32",
         [k](benchmark::State& s) { bench_matvec<float>(s, one_token(k.matmul_few_f32), n_cols * 4); });
  matvec("matvec_f16",
         [k](benchmark::State& s) { bench_matvec<F16>(s, one_token(k.matmul_few_f16), n_cols * 2); });
  matvec("matvec_bf16",
         [k](benchmark::State& s) { bench_matvec<BF16>(s, one_token(k.matmul_few_bf16), n_cols * 2); });
  matvec("matvec_q8_0", [k](benchmark::State& s) {
    using quant::BlockQ8_0;
    bench_matvec<BlockQ8_0>(s, k.matvec_q8_0, n_cols / BlockQ8_0::size * sizeof(BlockQ8_0));
  });
  benchmark::RegisterBenchmark(name("matmul_panels").c_str(), bench_matmul, k.matmul_panels)
      ->Unit(benchmark::kMillisecond)
      ->Arg(256)
      ->Arg(8);
  benchmark::RegisterBenchmark(name("pack_panel_f32").c_str(),
                               bench_pack_panel<float, decltype(k.pack_panel_f32)>, k.pack_panel_f32);
  benchmark::RegisterBenchmark(name("pack_panel_f16").c_str(),
                               bench_pack_panel<F16, decltype(k.pack_panel_f16)>, k.pack_panel_f16);
  benchmark::RegisterBenchmark(name("pack_i16_f16").c_str(), bench_pack_i16, k)->Arg(2)->Arg(128);
  benchmark::RegisterBenchmark(name("pack_q8_0").c_str(), bench_pack_q8_0, k);
  register_attention(isa, k);
  register_elementwise(isa, k);
}

void register_all() {
#if defined(RUNNEL_BENCH_BLAS)
  benchmark::RegisterBenchmark("sgemm", bench_sgemm)->Unit(benchmark::kMillisecond)->Arg(256)->Arg(8);
#endif
  for_each_row([](const simd::IsaRow& row, const Kernels& kernels) { register_row(row.name, kernels); });
}

}  // namespace
}  // namespace runnel::bench

int main(int argc, char** argv) { return runnel::bench::run(argc, argv, runnel::bench::register_all); }
