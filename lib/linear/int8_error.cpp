#include "lib/linear/int8_error.h"

#include <algorithm>
#include <vector>

#include "lib/linear/linear.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

// The row after int8, the entries far outside carried.
std::vector<float> with_carried(const simd::Kernels& kernels, const float* x, std::size_t n) {
  Int8Buffer buffer(kernels, 1, n);
  const quant::ActivationsI8 row = buffer.of(1, n);
  kernels.quantize_i8(row, x, n, 1);
  std::vector<float> seen(n);
  for (std::size_t i = 0; i < n; ++i)
    seen[i] = static_cast<float>(row.codes[i]) * row.scales[i / quant::i8_block];
  for (std::uint32_t i = 0; i < *row.n_carried; ++i) seen[row.carried[i].index] = row.carried[i].value;
  return seen;
}

std::vector<float> without_carried(const simd::Kernels& kernels, const float* x, std::size_t n) {
  std::vector<float> seen(n);
  std::vector<std::int8_t> codes(quant::i8_block);
  for (std::size_t begin = 0; begin < n; begin += quant::i8_block) {
    const std::size_t size = std::min(quant::i8_block, n - begin);
    const float scale = kernels.quantize_vector(codes.data(), 1, 1, x + begin, size);
    for (std::size_t i = 0; i < size; ++i) seen[begin + i] = static_cast<float>(codes[i]) * scale;
  }
  return seen;
}

}  // namespace

double int8_error(const float* x, std::size_t n, bool carry) {
  const simd::IsaRow* row = nullptr;
  const simd::Kernels kernels = simd::select(nullptr, simd::cpu_features(), &row);
  const std::vector<float> seen = carry ? with_carried(kernels, x, n) : without_carried(kernels, x, n);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(seen[i]);
    error += d * d;
    power += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return power == 0 ? 0 : error / power;
}

}  // namespace runnel
