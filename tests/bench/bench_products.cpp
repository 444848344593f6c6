// The product of an int8 matrix and some tokens, alone, on one core: runnel's, oneDNN's, and OpenBLAS's in
// float. All multiply the same numbers, and none is timed before its outputs were found right. products.py
// makes a table of it:
//
//   bench_products --benchmark_filter='runnel/avx2|onednn'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "quant/i8.h"
#include "simd/kernels.h"
#include "tests/bench/int8_operands.h"
#include "tests/bench/rows.h"
#if defined(RUNNEL_BENCH_BLAS)
#include <cblas.h>
#endif
#if defined(RUNNEL_BENCH_DNNL)
#include <omp.h>

#include <dnnl.hpp>
#endif

namespace runnel::bench {
namespace {

using simd::Kernels;

constexpr size_t n_rows = 4096;
constexpr size_t n_cols = 4096;

// Packed, and the same numbers as floats [n_rows, n_cols].
struct Weights {
  Matrix packed{quant::VariantI8::g128, n_rows, n_cols};
  std::vector<float> values;

  Weights() : values(n_rows * n_cols) {
    for (size_t r = 0; r < n_rows; ++r) quant::decode_row_i8(&values[r * n_cols], packed.panels, r);
  }
};

const Weights& weights() {
  static const Weights w;
  return w;
}

struct Task {
  const std::vector<float>& x;  // [n_tok, n_cols]
  size_t n_tok;
  float* y;  // [n_tok, n_rows]
};

// A contender prepares what is not timed; what is left is one call.
struct Product {
  std::string kernel;
  std::function<void()> multiply;
};
using Contender = std::function<Product(const Task&)>;

// Whether some outputs are the sums of products, as far as few bits tell: relative to the root of the sum of
// the squared products, activations of 8 bits make an error of 0.004, and weights of 7 bits one of 0.008 (one
// standard deviation).
bool is_right(const Task& task) {
  constexpr double tolerance = 0.05;
  for (size_t i = 0; i < 64; ++i) {
    const size_t t = i * 31 % task.n_tok;
    const size_t r = i * 997 % n_rows;
    double sum = 0.0, squares = 0.0;
    for (size_t c = 0; c < n_cols; ++c) {
      const double product = double{weights().values[r * n_cols + c]} * double{task.x[t * n_cols + c]};
      sum += product;
      squares += product * product;
    }
    const double error = std::abs(double{task.y[t * n_rows + r]} - sum);
    if (!(error <= tolerance * std::sqrt(squares))) return false;
  }
  return true;
}

// range(0) tokens.
void bench(benchmark::State& state, const Contender& contender) {
  const auto n_tok = static_cast<size_t>(state.range(0));
  const std::vector<float> x = activations(n_cols, n_tok, 0);
  AlignedVector<float> y(n_tok * n_rows, NAN);
  const Task task{x, n_tok, y.data()};
  const Product product = contender(task);
  state.SetLabel(product.kernel);
  product.multiply();
  if (!is_right(task)) return state.SkipWithError("the outputs are not the product");
  for (auto _ : state) {
    product.multiply();
    benchmark::ClobberMemory();
  }
  set_rate(state, "MAC", n_rows * n_cols * n_tok);
}

// rounds: making bf16 of the activations is timed too.
Product runnel_bf16_product(const char* row, const Kernels& k, bool rounds, const Task& task) {
  const auto buffer = std::make_shared<Bf16Buffer>(task.n_tok, n_cols);
  const auto scratch = std::make_shared<AlignedVector<simd::BF16>>(simd::bf16_scratch);
  const quant::ActivationsBf16 rows = buffer->of(task.n_tok, n_cols);
  const auto round = [=] { k.round_bf16(rows, task.x.data(), n_cols, task.n_tok); };
  round();
  return {row, [=, keep = buffer] {
            if (rounds) round();
            k.matmul_bf16(task.y, n_rows, rows, task.n_tok, weights().packed.panels, nullptr,
                          scratch->data());
          }};
}

// quantizes: making int8 (or bf16) of the activations is timed too.
Contender runnel_product(const char* row, const Kernels& k, bool quantizes) {
  return [=](const Task& task) -> Product {
    if (task.n_tok >= k.least_bf16()) return runnel_bf16_product(row, k, quantizes, task);
    const auto buffer = std::make_shared<Int8Buffer>(k, task.n_tok, n_cols);
    const quant::ActivationsI8 rows = buffer->of(task.n_tok, n_cols);
    const auto quantize = [=] { k.quantize_i8(rows, task.x.data(), n_cols, task.n_tok); };
    quantize();
    return {row, [=, keep = buffer] {
              if (quantizes) quantize();
              k.matmul_i8(task.y, n_rows, rows, task.n_tok, weights().packed.panels, nullptr);
            }};
  };
}

#if defined(RUNNEL_BENCH_BLAS)
Product openblas_product(const Task& task) {
  const float* x = task.x.data();
  const float* w = weights().values.data();
  constexpr auto rows = static_cast<int>(n_rows);
  constexpr auto cols = static_cast<int>(n_cols);
  const auto n_tok = static_cast<int>(task.n_tok);
  float* y = task.y;
  const auto gemv = [=] {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, rows, cols, 1.0f, w, cols, x, 1, 0.0f, y, 1);
  };
  const auto gemm = [=] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n_tok, rows, cols, 1.0f, x, cols, w, cols, 0.0f, y,
                rows);
  };
  if (n_tok == 1) return {openblas_get_corename(), gemv};
  return {openblas_get_corename(), gemm};
}
#endif

#if defined(RUNNEL_BENCH_DNNL)
using dnnl::memory;

// The scale with which the largest of x gets the code `most`.
float scale_of(const float* x, size_t n, int most) {
  float largest = 0.0f;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest / static_cast<float>(most);
}

// Without VNNI oneDNN adds two products in 16 bits, which saturate if weights have more than 7 bits.
int largest_weight() {
  constexpr unsigned vnni = (dnnl_cpu_isa_avx512_core_vnni & ~dnnl_cpu_isa_avx512_core) |
                            (dnnl_cpu_isa_avx2_vnni & ~dnnl_cpu_isa_avx2);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & vnni) != 0 ? 127 : 63;
}

// Code: int8, or uint8 with `zero` standing for 0.
template <class Code>
void quantize(Code* codes, const float* x, size_t n, float scale, long zero = 0) {
  for (size_t i = 0; i < n; ++i) codes[i] = static_cast<Code>(std::lrint(x[i] / scale) + zero);
}

// The weights as oneDNN takes them: a scale for each output.
struct ChannelWeights {
  std::vector<std::int8_t> codes;  // [n_rows, n_cols]
  std::vector<float> scales;       // [n_rows]

  ChannelWeights() : codes(n_rows * n_cols) {
    for (size_t r = 0; r < n_rows; ++r) {
      const float* row = &weights().values[r * n_cols];
      scales.push_back(scale_of(row, n_cols, largest_weight()));
      quantize(&codes[r * n_cols], row, n_cols, scales[r]);
    }
  }
};

const ChannelWeights& channel_weights() {
  static const ChannelWeights w;
  return w;
}

// In the layout that oneDNN prefers for this number of tokens.
memory weights_in(const memory::desc& layout, const dnnl::engine& engine, dnnl::stream& stream) {
  auto* codes = const_cast<std::int8_t*>(channel_weights().codes.data());  // is only read
  memory plain({layout.dims(), memory::data_type::s8, memory::format_tag::ba}, engine, codes);
  memory preferred(layout, engine);
  dnnl::reorder(plain, preferred).execute(stream, plain, preferred);
  stream.wait();
  return preferred;
}

// One scale for all activations, one for each output; activations of the type s8 or u8.
template <memory::data_type type>
Product onednn_product(const Task& task) {
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  constexpr int zero = type == Type::u8 ? 128 : 0;
  const auto n_tok = static_cast<memory::dim>(task.n_tok);
  const memory::dim rows = n_rows, cols = n_cols;
  const std::vector<float>& x = task.x;
  const float x_scale = scale_of(x.data(), x.size(), 127);

  std::vector<float> scales = channel_weights().scales;
  for (float& scale : scales) scale *= x_scale;
  dnnl::primitive_attr attributes;
  constexpr int for_each_output = 1 << 1;
  attributes.set_output_scales(for_each_output, scales);
  if (zero != 0) attributes.set_zero_points(DNNL_ARG_SRC, 0, {zero});

  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::matmul::primitive_desc description({{{n_tok, cols}, type, Tag::ab},
                                                  {{cols, rows}, Type::s8, Tag::any},
                                                  {{n_tok, rows}, Type::f32, Tag::ab}},
                                                 attributes, engine);
  const memory x_memory(description.src_desc(), engine);
  using Code = std::conditional_t<type == Type::u8, std::uint8_t, std::int8_t>;
  quantize(static_cast<Code*>(x_memory.get_data_handle()), x.data(), x.size(), x_scale, zero);
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, x_memory},
      {DNNL_ARG_WEIGHTS, weights_in(description.weights_desc(), engine, stream)},
      {DNNL_ARG_DST, memory(description.dst_desc(), engine, task.y)}};
  return {description.impl_info_str(), [=, product = dnnl::matmul(description)]() mutable {
            product.execute(stream, arguments);
            stream.wait();
          }};
}
#endif

void add(const std::string& name, const Contender& contender) {
  auto* entry = benchmark::RegisterBenchmark(
      name.c_str(), [contender](benchmark::State& state) { bench(state, contender); });
  for (const int n_tok : {1, 8, 64, 512}) entry->Arg(n_tok);
  entry->Unit(benchmark::kMicrosecond);
}

void register_all() {
  for_each_row([](const simd::IsaRow& row, const Kernels& k) {
    if (row.kernels->matmul_i8 == nullptr) return;
    add(std::string("runnel/") + row.name, runnel_product(row.name, k, false));
    add(std::string("runnel_quantizing/") + row.name, runnel_product(row.name, k, true));
  });
#if defined(RUNNEL_BENCH_DNNL)
  omp_set_num_threads(1);
  add("onednn/s8", onednn_product<memory::data_type::s8>);
  add("onednn/u8", onednn_product<memory::data_type::u8>);
#endif
#if defined(RUNNEL_BENCH_BLAS)
  openblas_set_num_threads(1);
  add("openblas/f32", openblas_product);
#endif
}

}  // namespace
}  // namespace runnel::bench

int main(int argc, char** argv) { return runnel::bench::run(argc, argv, runnel::bench::register_all); }
