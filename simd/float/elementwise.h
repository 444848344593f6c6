// Kernels that take each number (or pair) by itself. The last, partial vector goes through the same
// operations as the whole ones, so that a number has the same bits wherever a split of the work puts it.
#pragma once
#include "simd/float/abreast.h"
#include "simd/float/exp.h"
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// y[i] = f(a[i]) and y[i] = f(a[i], b[i]); f takes and gives vectors.
template <class F>
inline void map(float* y, const float* a, size_t n, F f) noexcept {
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(a + i)));
  if (i < n) store_n(y + i, f(load_n(a + i, n - i)), n - i);
}
template <class F>
inline void map(float* y, const float* a, const float* b, size_t n, F f) noexcept {
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(a + i), load(b + i)));
  if (i < n) store_n(y + i, f(load_n(a + i, n - i), load_n(b + i, n - i)), n - i);
}

void add(float* y, const float* x, size_t n) noexcept {
  map(y, y, x, n, [](F32 y_i, F32 x_i) { return y_i + x_i; });
}
void add_scaled(float* y, const float* x, float a, size_t n) noexcept {
  map(y, y, x, n, [a](F32 y_i, F32 x_i) { return fmadd(F32(a), x_i, y_i); });
}
void mul(float* y, const float* x, size_t n) noexcept {
  map(y, y, x, n, [](F32 y_i, F32 x_i) { return y_i * x_i; });
}
void scale(float* x, float a, size_t n) noexcept {
  map(x, x, n, [a](F32 x_i) { return x_i * F32(a); });
}

// x[v] = x[v] / (1 + exp(u[v])); u is used up. For very negative x, whose u is large, exp overflows to
// infinity, and the quotient goes to -0 as it should.
template <size_t n_vecs>
inline void over_one_plus_exp(F32 (&x)[n_vecs], F32 (&u)[n_vecs]) noexcept {
  exp(u);
  for_each_vector<n_vecs>([&](size_t v) { x[v] = x[v] / (F32(1.0f) + u[v]); });
}

// x / (1 + exp(-x))
template <size_t n_vecs>
inline void silu(F32 (&x)[n_vecs]) noexcept {
  F32 u[n_vecs];
  for_each_vector<n_vecs>([&](size_t v) { u[v] = -x[v]; });
  over_one_plus_exp(x, u);
}

// Hendrycks and Gimpel 2016: 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3). As 1 + tanh(u) =
// 2 / (1 + exp(-2u)), there is nothing to cancel for negative x.
template <size_t n_vecs>
inline void gelu(F32 (&x)[n_vecs]) noexcept {
  constexpr float minus_2_sqrt_2_over_pi = -1.5957691216057308f;
  F32 minus_2u[n_vecs];
  for_each_vector<n_vecs>([&](size_t v) {
    minus_2u[v] = F32(minus_2_sqrt_2_over_pi) * fmadd(F32(0.044715f) * x[v] * x[v], x[v], x[v]);
  });
  over_one_plus_exp(x, minus_2u);
}

// y[i] = activation(x[i]) and y[i] = activation(gate[i]) up[i]; activation changes vectors abreast.
template <class Activation>
inline void activate(float* y, const float* x, size_t n, Activation activation) noexcept {
  const size_t rest = by_vectors(n, [&](size_t i, auto n_vecs) {
    F32 a[n_vecs];
    for_each_vector<n_vecs>([&](size_t v) { a[v] = load(x + i + v * lanes); });
    activation(a);
    for_each_vector<n_vecs>([&](size_t v) { store(y + i + v * lanes, a[v]); });
  });
  if (rest == n) return;
  F32 a[] = {load_n(x + rest, n - rest)};
  activation(a);
  store_n(y + rest, a[0], n - rest);
}
template <class Activation>
inline void activate(float* y, const float* gate, const float* up, size_t n, Activation activation) noexcept {
  const size_t rest = by_vectors(n, [&](size_t i, auto n_vecs) {
    F32 a[n_vecs];
    for_each_vector<n_vecs>([&](size_t v) { a[v] = load(gate + i + v * lanes); });
    activation(a);
    for_each_vector<n_vecs>([&](size_t v) {
      const size_t at = i + v * lanes;
      store(y + at, a[v] * load(up + at));
    });
  });
  if (rest == n) return;
  F32 a[] = {load_n(gate + rest, n - rest)};
  activation(a);
  store_n(y + rest, a[0] * load_n(up + rest, n - rest), n - rest);
}

void silu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  activate(y, gate, up, n, [](auto& x) { silu(x); });
}
void gelu_mul(float* y, const float* gate, const float* up, size_t n) noexcept {
  activate(y, gate, up, n, [](auto& x) { gelu(x); });
}
void gelu(float* y, const float* x, size_t n) noexcept {
  activate(y, x, n, [](auto& a) { gelu(a); });
}
void soft_cap(float* x, float cap, size_t n) noexcept {
  map(x, x, n, [cap](F32 x_i) { return F32(cap) * xsimd::tanh(x_i / F32(cap)); });
}

void rope_adjacent(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  constexpr size_t step = lanes / 2;
  size_t i = 0;
  for (; i + step <= n_pairs; i += step) store(x + 2 * i, rotate_pairs(load(x + 2 * i), cos + i, sin + i));
  if (const size_t n = n_pairs - i; n != 0) {
    const Part<float> c(cos + i, n, 0.0f);
    const Part<float> s(sin + i, n, 0.0f);
    store_n(x + 2 * i, rotate_pairs(load_n(x + 2 * i, 2 * n), c.data, s.data), 2 * n);
  }
}

void rope_halves(float* x, const float* cos, const float* sin, size_t n_pairs) noexcept {
  float* y = x + n_pairs;
  size_t i = 0;
  for (; i + lanes <= n_pairs; i += lanes) {
    const F32 a = load(x + i), b = load(y + i), c = load(cos + i), s = load(sin + i);
    store(x + i, fmadd(a, c, -(b * s)));
    store(y + i, fmadd(b, c, a * s));
  }
  if (const size_t n = n_pairs - i; n != 0) {
    const F32 a = load_n(x + i, n), b = load_n(y + i, n), c = load_n(cos + i, n), s = load_n(sin + i, n);
    store_n(x + i, fmadd(a, c, -(b * s)), n);
    store_n(y + i, fmadd(b, c, a * s), n);
  }
}

void f16_to_f32(float* y, const F16* x, size_t n) noexcept {
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load_f16(x + i));
  if (i < n) store_n(y + i, load_f16_n(x + i, n - i), n - i);
}
void bf16_to_f32(float* y, const BF16* x, size_t n) noexcept {
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load_bf16(x + i));
  if (i < n) store_n(y + i, load_bf16_n(x + i, n - i), n - i);
}
void f32_to_f16(F16* y, const float* x, size_t n) noexcept {
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store_f16(y + i, load(x + i));
  if (i < n) store_f16_n(y + i, load_n(x + i, n - i), n - i);
}

}  // namespace
}  // namespace runnel::simd
