// The specification: every kernel, as plainly as C++ says it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/float16.h"
#include "simd/kernels.h"

namespace runnel::simd {
namespace {

template <class T, float (*widen)(T)>
void matvec(float* y, const T* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  for (size_t r = 0; r < n_rows; ++r) {
    float sum = 0.0f;
    for (size_t c = 0; c < n_cols; ++c) sum += widen(w[r * n_cols + c]) * x[c];
    y[r] = sum;
  }
}

float same(float x) noexcept { return x; }

void matvec_f32(float* y, const float* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<float, same>(y, w, n_rows, n_cols, x);
}
void matvec_f16(float* y, const F16* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<F16, quant::f16_to_f32>(y, w, n_rows, n_cols, x);
}
void matvec_bf16(float* y, const BF16* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  matvec<BF16, quant::bf16_to_f32>(y, w, n_rows, n_cols, x);
}
void matvec_q8_0(float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x) noexcept {
  constexpr size_t size = quant::BlockQ8_0::size;
  const size_t n_blocks = n_cols / size;
  for (size_t r = 0; r < n_rows; ++r) {
    float sum = 0.0f;
    for (size_t b = 0; b < n_blocks; ++b) {
      const quant::BlockQ8_0& block = w[r * n_blocks + b];
      float dot = 0.0f;
      for (size_t i = 0; i < size; ++i) dot += static_cast<float>(block.qs[i]) * x[b * size + i];
      sum += quant::f16_to_f32(block.d) * dot;
    }
    y[r] = sum;
  }
}

void f16_to_f32(float* y, const F16* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::f16_to_f32(x[i]);
}
void bf16_to_f32(float* y, const BF16* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::bf16_to_f32(x[i]);
}
void f32_to_f16(F16* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = quant::f32_to_f16(x[i]);
}

void pack_panel(float* panel, const float* w, size_t w_stride, size_t n_rows, size_t n_cols) noexcept {
  for (size_t c = 0; c < n_cols; ++c) {
    for (size_t r = 0; r < panel_rows; ++r)
      panel[c * panel_rows + r] = r < n_rows ? w[r * w_stride + c] : 0.0f;
  }
}
void matmul_panels(float* y, size_t y_stride, const float* x, size_t x_stride, size_t n_tok,
                   const float* panels, size_t n_rows, size_t n_cols) noexcept {
  for (size_t t = 0; t < n_tok; ++t) {
    for (size_t r = 0; r < n_rows; ++r) {
      const float* panel = panels + r / panel_rows * n_cols * panel_rows;
      float sum = y[t * y_stride + r];
      for (size_t c = 0; c < n_cols; ++c) sum += x[t * x_stride + c] * panel[c * panel_rows + r % panel_rows];
      y[t * y_stride + r] = sum;
    }
  }
}

template <class T, float (*widen)(T)>
void scores(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const T* k, size_t n_k,
            size_t dim) noexcept {
  for (size_t i = 0; i < n_q; ++i) matvec<T, widen>(s + i * s_stride, k, n_k, dim, q + i * q_stride);
}
void scores_f32(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,
                size_t n_k, size_t dim) noexcept {
  scores<float, same>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
}
void scores_f16(float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,
                size_t n_k, size_t dim) noexcept {
  scores<F16, quant::f16_to_f32>(s, s_stride, q, q_stride, n_q, k, n_k, dim);
}

template <class T, float (*widen)(T)>
void mix(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const T* v, size_t n_k,
         size_t dim) noexcept {
  for (size_t i = 0; i < n_q; ++i) {
    for (size_t j = 0; j < n_k; ++j) {
      for (size_t d = 0; d < dim; ++d) y[i * y_stride + d] += p[i * p_stride + j] * widen(v[j * dim + d]);
    }
  }
}
void mix_f32(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,
             size_t n_k, size_t dim) noexcept {
  mix<float, same>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}
void mix_f16(float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v, size_t n_k,
             size_t dim) noexcept {
  mix<F16, quant::f16_to_f32>(y, y_stride, p, p_stride, n_q, v, n_k, dim);
}

float softmax_step(float* s, size_t n, float* max, float* sum) noexcept {
  float new_max = *max;
  for (size_t i = 0; i < n; ++i) new_max = std::max(new_max, s[i]);
  if (new_max == -std::numeric_limits<float>::infinity()) {  // all masked, and -inf - -inf is no number
    std::fill_n(s, n, 0.0f);
    return 1.0f;
  }
  const float rescale = std::exp(*max - new_max);
  *sum *= rescale;
  for (size_t i = 0; i < n; ++i) {
    s[i] = std::exp(s[i] - new_max);
    *sum += s[i];
  }
  *max = new_max;
  return rescale;
}
void softmax(float* x, size_t n) noexcept {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
  softmax_step(x, n, &max, &sum);
  if (sum == 0.0f) return;  // all masked: zeros
  for (size_t i = 0; i < n; ++i) x[i] /= sum;
}

void rms_norm(float* y, const float* x, const float* gain, size_t n, float eps) noexcept {
  float squares = 0.0f;
  for (size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const float root = std::sqrt(squares / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] / root * (gain != nullptr ? gain[i] : 1.0f);
}
void layer_norm(float* y, const float* x, const float* gain, const float* bias, size_t n,
                float eps) noexcept {
  float mean = 0.0f;
  for (size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<float>(n);
  float squares = 0.0f;
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float root = std::sqrt(squares / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    y[i] = (x[i] - mean) / root * (gain != nullptr ? gain[i] : 1.0f) + (bias != nullptr ? bias[i] : 0.0f);
  }
}

void rotate(float& a, float& b, float cos, float sin) noexcept {
  const float rotated_a = a * cos - b * sin;
  b = a * sin + b * cos;
  a = rotated_a;
}
void rope_adjacent(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  for (size_t i = 0; i < n_pairs; ++i) rotate(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
}
void rope_halves(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  for (size_t i = 0; i < n_pairs; ++i) rotate(x[i], x[i + n_pairs], cos[i], sin[i]);
}

float silu_of(float x) noexcept { return x / (1.0f + std::exp(-x)); }
float gelu_of(float x) noexcept {
  constexpr float sqrt_2_over_pi = 0.7978845608028654f;
  return 0.5f * x * (1.0f + std::tanh(sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
}
void silu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = silu_of(gate[i]) * up[i];
}
void gelu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = gelu_of(gate[i]) * up[i];
}
void gelu(float* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = gelu_of(x[i]);
}

void add(float* y, const float* x, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}
void add_scaled(float* y, const float* x, float a, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}
void scale(float* x, float a, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] *= a;
}
void soft_cap(float* x, float cap, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

}  // namespace

extern const Kernels kernels_scalar;
const Kernels kernels_scalar{
#define X(name, result, params) .name = name,
    RUNNEL_KERNELS(X)
#undef X
};

}  // namespace runnel::simd
