// y = scale (W x) + bias for weights of any type, one token or many.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "lib/aligned.h"
#include "lib/linear/activation_buffer.h"
#include "lib/system/parallel.h"
#include "quant/activations.h"
#include "quant/i8.h"
#include "quant/tensor_type.h"
#include "simd/kernels.h"

namespace runnel {

// A weight matrix where the file has it, [n_rows, n_cols]: one row (one output) after another, or packed
// int8.
struct Linear {
  const quant::TypeInfo* type = nullptr;
  const std::byte* data = nullptr;
  quant::PanelsI8 packed;  // instead of type and data
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  const float* bias = nullptr;  // [n_rows] or null
  float scale = 1.0f;

  explicit operator bool() const { return data || packed.codes; }
  std::size_t row_bytes() const { return quant::row_bytes(*type, n_cols); }
  // Where a row, or what follows `col` in it, begins; col at whole blocks of the type. Not of packed weights.
  const std::byte* at(std::size_t row, std::size_t col = 0) const {
    return data + row * row_bytes() + quant::row_bytes(*type, col);
  }
  // What a product that comes before these rows may prefetch: where they begin, or null if there are none, or
  // packed ones, which are prefetched anyway.
  const std::byte* begin_of(Range rows) const { return data && rows.size() > 0 ? at(rows.begin) : nullptr; }
  // Outputs [begin, begin + n); of packed ones from a panel on.
  Linear rows(std::size_t begin, std::size_t n) const;
};

enum class Arithmetic { f32, i8, i16 };

// That of a product with many tokens.
Arithmetic arithmetic_of(const simd::Kernels& kernels, const Linear& w) noexcept;

// The kinds of matrices that a model's products read. Q8_0 weights are multiplied in int8 as packed ones are,
// but for a single token, which only waits for them to come from memory: that product takes activations in
// floats. Where the kernels multiply many tokens faster in bf16, weights of both kinds are multiplied so.
// Weights of 16 bits are multiplied in int16 with many tokens, where the kernels prefer that to floats.
struct WeightKinds {
  bool f32 = false, halves = false, q8_0 = false, packed = false;  // halves: F16 and BF16
  void add(const Linear& w);
  // From how many tokens on some product reads activations in int8, up to those from where on they are read
  // in bf16, and in int16.
  std::size_t int8_from() const;
  std::size_t bf16_from(const simd::Kernels& kernels) const;
  std::size_t int16_from(const simd::Kernels& kernels) const;
  // The fewest tokens that are multiplied in the same way as n_tok.
  std::size_t least_alike(const simd::Kernels& kernels, std::size_t n_tok) const;
};

// Rows of activations, [n_tok, stride].
struct ConstRows {
  const float* data;
  std::size_t stride;
};
struct Rows {
  float* data;
  std::size_t stride;
  operator ConstRows() const { return {data, stride}; }  // NOLINT(google-explicit-constructor)
};

// What a product reads: rows of activations, and the same in int8, in bf16 and in int16 from so many tokens
// on as WeightKinds tells.
struct Input {
  ConstRows rows;
  quant::ActivationsI8 int8;
  quant::ActivationsBf16 bf16;
  quant::ActivationsI16 int16;

  // From token `begin` on.
  Input tokens(std::size_t begin) const noexcept {
    return {{rows.data + begin * rows.stride, rows.stride},
            int8.codes ? int8.tokens(begin) : int8,
            bf16.values ? bf16.tokens(begin) : bf16,
            int16.codes ? int16.tokens(begin) : int16};
  }
};

// What a thread lays out a block of weights in, as the product of many tokens reads them.
struct LinearScratch {
  LinearScratch(const WeightKinds& kinds, const simd::Kernels& kernels, std::size_t max_cols);
  static std::size_t n_bytes(const WeightKinds& kinds, const simd::Kernels& kernels, std::size_t max_cols);
  AlignedVector<float> floats;        // float_matmul.h, int16_matmul.h
  AlignedVector<std::int16_t> int16;  // int16_matmul.h
  AlignedVector<std::uint16_t> int16_scales;
  AlignedVector<std::int8_t> codes;  // q8_0_matmul.h
  AlignedVector<std::uint16_t> scales;
  AlignedVector<std::uint16_t> bf16;  // of both kinds, where kernels multiply them in bf16
};

// How a team shares the outputs of some products, as many in each, with n_tok tokens. A null matrix is left
// out.
SharedWork shared_rows(const simd::Kernels& kernels, std::initializer_list<const Linear*> products,
                       std::size_t n_tok, std::size_t n_threads) noexcept;

// Computes some of the outputs, from a multiple of simd::panel_rows on, for n_tok tokens. What an output
// becomes does not depend on which others are computed with it. next: weights that this thread reads after
// these rows, to be prefetched, or null.
void multiply(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& linear, Range rows,
              const std::byte* next, const Input& x, Rows y, std::size_t n_tok) noexcept;

// One decoded row: an embedding. y: [n_cols].
void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, float* y) noexcept;

}  // namespace runnel
