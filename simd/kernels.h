// The contract between model code and instruction sets: one function pointer per kernel.
// To add a kernel: one line here, its definition in simd/isa/scalar.cpp (plain and complete: the
// specification), one check in tests/kernels/. To add an instruction set: one file simd/isa/<name>.cpp and
// one row in simd/meson.build.
//
// Kernels are leaves: noexcept, no allocation, no threads; the caller splits the rows. Pointers need no
// alignment beyond their type's. Any n, 0 included, unless said. The result for one row or token does not
// depend on how many others the same call computes, so that every split of the work gives the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/activations.h"
#include "quant/i16.h"
#include "quant/i8.h"
#include "quant/q8_0.h"

namespace runnel::simd {

using std::size_t;
using F16 = std::uint16_t;   // IEEE binary16 bits
using BF16 = std::uint16_t;  // upper half of a binary32

constexpr size_t panel_rows = 16;  // output rows that lie side by side in a packed panel
constexpr size_t block_keys = 16;  // cached keys that lie side by side
// Numbers of a cached int8 key, or cached int8 values, that lie side by side: like those of int8 weights,
// what one dot product of bytes adds up.
constexpr size_t dot_bytes = quant::i8_step_cols;
// Neighbouring keys, or values, that the caller passes at a time at most; the next of them follow in memory.
constexpr size_t run_keys = 256;
// What meets int8 numbers and is float itself (a query, weights over keys, a vector) may be rounded to so
// many steps between zero and its largest number.
constexpr int factor_steps = 127 * 256 + 127;

// A block of panels that stays in a core's L2 cache while all tokens pass: 256 x 512 floats, 512 KiB.
constexpr size_t panel_block_rows = 256;
constexpr size_t panel_block_cols = 512;

// Weights that a product in bf16 lays out at a time: twice two panels by 2,048 inputs.
constexpr size_t bf16_scratch = 2 * 2 * panel_rows * 2048;

// clang-format off
//  name          result  parameters
#define RUNNEL_KERNELS(X)                                                                                              \
  /* y[t, r] = sum_c w[r,c] x[t,c], r < n_rows, t < n_tok, for a few tokens;  w: [n_rows, n_cols] rows one after       \
     another, y, x: rows y_stride, x_stride apart */                                                                   \
  X(matmul_few_f32, void, (float* y, size_t y_stride, const float* w, size_t n_rows, size_t n_cols, const float* x,    \
                           size_t x_stride, size_t n_tok))                                                             \
  X(matmul_few_f16, void, (float* y, size_t y_stride, const F16* w, size_t n_rows, size_t n_cols, const float* x,      \
                           size_t x_stride, size_t n_tok))                                                             \
  X(matmul_few_bf16, void, (float* y, size_t y_stride, const BF16* w, size_t n_rows, size_t n_cols, const float* x,    \
                           size_t x_stride, size_t n_tok))                                                             \
  /* up to how many tokens these are worth it, with weights of so many bytes */                                        \
  X(most_few,     size_t, (size_t weight_bytes))                                                                       \
  /* y[r] = sum_c w[r,c] x[c];  n_cols % 32 == 0; each 32 of x may be rounded to 16 bits, by at most                   \
     max |x[c]| / factor_steps / 2, and to zero where max |x[c]| is below 2^-100; y is not finite where one of x       \
     is not */                                                                                                         \
  X(matvec_q8_0,  void,   (float* y, const quant::BlockQ8_0* w, size_t n_rows, size_t n_cols, const float* x))         \
  /* conversions of n numbers, to nearest even; f16 overflows to infinity */                                           \
  X(f16_to_f32,   void,   (float* y, const F16* x, size_t n))                                                          \
  X(bf16_to_f32,  void,   (float* y, const BF16* x, size_t n))                                                         \
  X(f32_to_f16,   void,   (F16* y, const float* x, size_t n))                                                          \
  /* panel[c, r] = w[r, c], r < panel_rows, zero from n_rows on;  w: rows w_stride apart, panel: [n_cols, panel_rows] */ \
  X(pack_panel_f32, void, (float* panel, const float* w, size_t w_stride, size_t n_rows, size_t n_cols))               \
  X(pack_panel_f16, void, (float* panel, const F16* w, size_t w_stride, size_t n_rows, size_t n_cols))                 \
  X(pack_panel_bf16, void, (float* panel, const BF16* w, size_t w_stride, size_t n_rows, size_t n_cols))               \
  /* y[t, r] = (adds ? y[t, r] : 0) + sum_c x[t, c] panels[r / 16][c, r % 16], r < n_rows, t < n_tok;                  \
     panels: [ceil(n_rows / 16), n_cols, 16]; x, y: rows x_stride, y_stride apart */                                   \
  X(matmul_panels, void,  (float* y, size_t y_stride, bool adds, const float* x, size_t x_stride, size_t n_tok,        \
                           const float* panels, size_t n_rows, size_t n_cols))                                         \
  /* what a core can do at best: read n words, in one stream or (n_streams > 1) in four side by side, each line        \
     prefetched `ahead` bytes before or (0) not at all (returns their exclusive or); n rounds of independent           \
     multiply-adds in f32, or of products of int8 or int16 into int32. These add up ones: they return how many they    \
     made. n < 2^24 */                                                                                                 \
  X(read_words,   std::uint64_t, (const std::uint64_t* p, size_t n, size_t n_streams, size_t ahead))                   \
  X(peak_f32,     std::uint64_t, (size_t n))                                                                           \
  X(peak_i8,      std::uint64_t, (size_t n))                                                                           \
  X(peak_i16,     std::uint64_t, (size_t n))                                                                           \
  /* int8 (quant/i8.h). Rows of Q8_0 blocks, one after another, into panels of g32 without loss;                       \
     w: [out.shape.n_rows, out.shape.n_groups()] */                                                                    \
  X(pack_q8_0,    void,   (const quant::MutablePanelsI8& out, const quant::BlockQ8_0* w))                              \
  /* Rows of activations: x: [n_tok, out.n_cols], rows x_stride apart. Entries above i8_carry_ratio times the lower    \
     median of the maxima of the row's blocks are carried, the i8_max_carried() largest at most. */                    \
  X(quantize_i8,  void,   (const quant::ActivationsI8& out, const float* x, size_t x_stride, size_t n_tok))            \
  /* how matmul_i8 reads activations, which quantize_i8 writes in each way: whether as `split`, which then must not    \
     be null; and from how many tokens on it is faster with raised codes, which it then reads of any number of them.   \
     No number of tokens: it does not read raised codes. A row with one of the three has all */                        \
  X(reads_split_i8, bool, ())                                                                                          \
  X(least_raised_i8, size_t, ())                                                                                       \
  /* y[t, r] = sum_c w[r, c] x[t, c], r < w.shape.n_rows;  y: rows y_stride apart, x.n_cols == w.shape.n_cols. The     \
     same bits from every row of kernels: integer sums over each block, then fused additions in one order:             \
       y = 0; for each group g { part = x.group_base_g;                                                                \
                                 for its blocks b: part = fma(i8_base + dot_b, x.scale_b, part);                       \
                                 y = fma(part, w.scale_g, y) }        (g32: y = fma(x.scale_b dot_b, w.scale_b, y))    \
       for each carried (i, v): y = fma(v, w[r, i], y)                                                                 \
     next: where the caller reads on afterwards, about as much as w's codes, if w itself is in the cache; it is        \
     prefetched meanwhile, and need not be all there. Or null */                                                       \
  X(matmul_i8,    void,   (float* y, size_t y_stride, const quant::ActivationsI8& x, size_t n_tok,                     \
                           const quant::PanelsI8& w, const void* next))                                                \
  /* the same product in bf16. Weights and activations are rounded to that; no product of two is, and their sums are    \
     floats, in any order. From how many tokens on it is faster than in int8; no number of them: it never is */        \
  X(least_bf16,   size_t, ())                                                                                          \
  /* x: [n_tok, out.n_cols], rows x_stride apart. Below 2^-126 a number may become zero */                             \
  X(round_bf16,   void,   (const quant::ActivationsBf16& out, const float* x, size_t x_stride, size_t n_tok))          \
  /* y[t, r] = sum_c w[r, c] x[t, c], r < w.shape.n_rows, t < n_tok, token 0 at a tile of its chunk;  y, next: as      \
     above, scratch: bf16_scratch numbers, in a whole number of cache lines. Products below 2^-126 may be zero, and    \
     weights whose scale is below 2^-100 less precise */                                                               \
  X(matmul_bf16,  void,   (float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,                   \
                           const quant::PanelsI8& w, const void* next, BF16* scratch))                                 \
  /* the same with Q8_0 rows, w: [n_rows, i8_blocks(x.n_cols)], whose columns are whole blocks */                      \
  X(matmul_bf16_q8_0, void, (float* y, size_t y_stride, const quant::ActivationsBf16& x, size_t n_tok,                 \
                             const quant::BlockQ8_0* w, size_t n_rows, const void* next, BF16* scratch))               \
  /* int16 (quant/i16.h). Rows of weights, w_stride apart, into panels; w: [out.shape.n_rows, out.shape.n_cols].       \
     Returns whether they are precise enough in each group of each panel, and no weights but zeros are lost: in        \
     every second row, which are those looked at, an input without codes has no others */                              \
  X(pack_i16_f16, bool,   (const quant::MutablePanelsI16& out, const F16* w, size_t w_stride))                         \
  X(pack_i16_bf16, bool,  (const quant::MutablePanelsI16& out, const BF16* w, size_t w_stride))                        \
  /* as quantize_i8, with i16_carry_ratio; `offsets` and `split` are not used */                                       \
  X(quantize_i16, void,   (const quant::ActivationsI16& out, const float* x, size_t x_stride, size_t n_tok))           \
  /* y[t, r] = (adds ? y[t, r] : 0) + sum_c w[r, c] x[t, first_col + c], r < w.shape.n_rows, c < w.shape.n_cols;       \
     y: rows y_stride apart, first_col: at a block. The same bits from every row of kernels, in the order of matmul_i8 \
     and groups of 128, but part = 0 for each group, and part = fma(dot_b, x.scale_b, part) */                         \
  X(matmul_i16,   void,   (float* y, size_t y_stride, bool adds, const quant::ActivationsI16& x, size_t first_col,     \
                           size_t n_tok, const quant::PanelsI16& w))                                                   \
  /* whether int16 is multiplied faster than floats */                                                                 \
  X(prefers_i16,  bool,   ())                                                                                          \
  /* attention. s[i, 16 b + j] = sum_d q[i, d] k[b, d, j], one chain of additions in the order of d;  q: [n_q, dim]    \
     rows q_stride apart, k: [n_blocks, dim, block_keys], s: [n_q, n_blocks * block_keys] rows s_stride apart */       \
  X(scores_f32,   void,   (float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const float* k,     \
                           size_t n_blocks, size_t dim))                                                               \
  X(scores_f16,   void,   (float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q, const F16* k,       \
                           size_t n_blocks, size_t dim))                                                               \
  /* s[i, j] = k_scales[j] sum_d q[i, d] k[b, d / 4, j % 16, d % 4], b = j / 16;  k: [n_blocks, ceil(dim / 4),         \
     block_keys, dot_bytes], k_scales: [n_blocks * block_keys]. A row of q may be rounded to 16 bits: by at most       \
     max |q[i]| / factor_steps / 2, and to zero where max |q[i]| is below 2^-100 */                                    \
  X(scores_i8,    void,   (float* s, size_t s_stride, const float* q, size_t q_stride, size_t n_q,                     \
                           const std::int8_t* k, const float* k_scales, size_t n_blocks, size_t dim))                  \
  /* y[i] += sum_j p[i, j] v[j];  p: rows p_stride apart, v: [n_k, dim], y: [n_q, dim] rows y_stride apart */          \
  X(mix_f32,      void,   (float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const float* v,     \
                           size_t n_k, size_t dim))                                                                    \
  X(mix_f16,      void,   (float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q, const F16* v,       \
                           size_t n_k, size_t dim))                                                                    \
  /* the same with int8 values, by whose scales the caller has multiplied p;  v: [ceil(n_k / 4), dim, dot_bytes].      \
     Rows of p may be rounded like those of q */                                                                       \
  X(mix_i8,       void,   (float* y, size_t y_stride, const float* p, size_t p_stride, size_t n_q,                     \
                           const std::int8_t* v, size_t n_k, size_t dim))                                              \
  /* scores_i8 and mix_i8 prefetch what lies run_keys further on, meanwhile. Of n bytes there, for n_q rows, they      \
     leave so many for the caller to prefetch between the two, the last of them */                                     \
  X(unfetched_i8, size_t, (size_t n, size_t n_q))                                                                      \
  /* y[i / side * y_stride + i % side] = x[i] / scale to the nearest integer, ties to even: `side` numbers side by     \
     side, then y_stride on. Returns scale = max |x| / 127. All zeros, or max |x| below 2^-100: scale 0, y 0. Not      \
     finite somewhere: scale NaN, y 0 */                                                                               \
  X(quantize_vector, float, (std::int8_t* y, size_t side, size_t y_stride, const float* x, size_t n))                  \
  /* one step of the online softmax (Milakov and Gimelshein 2018, algorithm 3) over a block of n scores: with          \
     m = max(*max, s), s[j] = exp(s[j] - m), *sum = *sum exp(*max - m) + sum_j s[j], *max = m; returns                 \
     exp(old *max - m), by which what was mixed so far is to be scaled. *max starts at -infinity, *sum at 0; a         \
     score of -infinity is a masked key (s[j] = 0). All masked so far: s = 0, *max stays, returns 1. A score that is   \
     no number makes *sum none, or counts as masked */                                                                 \
  X(softmax_step, float,  (float* s, size_t n, float* max, float* sum))                                                \
  /* y = x / sqrt(mean(x^2) + eps) * gain;  gain: [n]. y may be x */                                                   \
  X(rms_norm,     void,   (float* y, const float* x, const float* gain, size_t n, float eps))                          \
  /* y = (x - mean) / sqrt(var + eps) * gain + bias;  gain: [n], bias: [n] or null (zeros). y may be x */              \
  X(layer_norm,   void,   (float* y, const float* x, const float* gain, const float* bias, size_t n, float eps))       \
  /* rotate pairs in place: (x[2i], x[2i+1]), or (x[i], x[i + n_pairs]); cos, sin: [n_pairs] */                        \
  X(rope_adjacent, void,  (float* x, const float* cos, const float* sin, size_t n_pairs))                              \
  X(rope_halves,  void,   (float* x, const float* cos, const float* sin, size_t n_pairs))                              \
  /* y = act(gate) * up; silu(x) = x / (1 + exp(-x)), gelu the tanh form. y may be gate or up */                       \
  X(silu_mul,     void,   (float* y, const float* gate, const float* up, size_t n))                                    \
  X(gelu_mul,     void,   (float* y, const float* gate, const float* up, size_t n))                                    \
  X(gelu,         void,   (float* y, const float* x, size_t n))              /* y may be x */                          \
  X(add,          void,   (float* y, const float* x, size_t n))              /* y += x */                              \
  X(mul,          void,   (float* y, const float* x, size_t n))              /* y *= x */                              \
  X(add_scaled,   void,   (float* y, const float* x, float a, size_t n))     /* y += a x */                            \
  X(scale,        void,   (float* x, float a, size_t n))                     /* x *= a */                              \
  X(soft_cap,     void,   (float* x, float cap, size_t n))                   /* x = cap tanh(x / cap) */
// clang-format on

struct Kernels {
#define X(name, result, params) result(*name) params noexcept = nullptr;
  RUNNEL_KERNELS(X)
#undef X
};

struct IsaRow {
  const char* name;
  std::uint32_t needs;     // CpuFeature bits
  const Kernels* kernels;  // null entries are inherited from the rows below

  bool runs_on(std::uint32_t features) const noexcept { return (needs & ~features) == 0; }
};

std::span<const IsaRow> isa_rows() noexcept;  // best first; the last row is "scalar" and complete
std::uint32_t cpu_features() noexcept;        // what this CPU and its OS allow

// Every entry filled: the named row laid over those below it. Null name: the best this CPU can run. A name
// that is not built, or that this CPU cannot run: an empty table (all null) and *row = null.
Kernels select(const char* name, std::uint32_t features, const IsaRow** row) noexcept;

}  // namespace runnel::simd
