// y = scale (W x) + bias for weights of any type, one token or many.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "lib/aligned.h"
#include "lib/parallel.h"
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
  // What a product that comes before these rows may ask for: where they begin, or null if there are none, or
  // packed ones, which ask for themselves.
  const std::byte* begin_of(Range rows) const { return data && rows.size() > 0 ? at(rows.begin) : nullptr; }
  // Outputs [begin, begin + n); of packed ones from a panel on.
  Linear rows(std::size_t begin, std::size_t n) const;
};

// The kinds of matrices there are in a model. Q8_0 weights are multiplied in int8 as packed ones are, but for
// a single token, which only waits for them to come from memory: that product takes activations in floats.
struct WeightKinds {
  bool floats = false, q8_0 = false, packed = false;
  void add(const Linear& w);
  // From how many tokens on some product reads activations in int8.
  std::size_t int8_from() const;
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

// What a product reads: rows of activations, and the same in int8 from WeightKinds::int8_from() tokens on.
struct Input {
  ConstRows rows;
  quant::ActivationsI8 int8;
};

// Room for the int8 rows of a batch, whatever their width up to max_cols.
class Int8Buffer {
 public:
  Int8Buffer(std::size_t max_tok, std::size_t max_cols);
  quant::ActivationsI8 of(std::size_t n_tok, std::size_t n_cols) noexcept;
  static std::size_t n_bytes(std::size_t max_tok, std::size_t max_cols);

 private:
  AlignedVector<std::int8_t> codes_;
  AlignedVector<float> scales_;
  AlignedVector<std::int32_t> offsets_;
  std::vector<quant::CarriedI8> carried_;
  std::vector<std::uint32_t> n_carried_;
  std::vector<float> maxima_;
};

// What a thread lays out a block of weights in, as the product of many tokens reads them.
struct LinearScratch {
  LinearScratch(const WeightKinds& kinds, std::size_t max_cols);
  static std::size_t n_bytes(const WeightKinds& kinds, std::size_t max_cols);
  AlignedVector<float> floats;       // float_matmul.h
  AlignedVector<std::int8_t> codes;  // q8_0_matmul.h
  AlignedVector<std::uint16_t> scales;
};

// How a team shares the outputs of some products, as many in each, with n_tok tokens. A null matrix is left
// out.
SharedWork shared_rows(std::initializer_list<const Linear*> products, std::size_t n_tok,
                       std::size_t n_threads) noexcept;

// Computes some of the outputs, from a multiple of simd::panel_rows on, for n_tok tokens. What an output
// becomes does not depend on which others are computed with it. next: weights that this thread reads after
// these rows, to be asked for, or null.
void multiply(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& linear, Range rows,
              const std::byte* next, const Input& x, Rows y, std::size_t n_tok) noexcept;

// One decoded row: an embedding. y: [n_cols].
void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, float* y) noexcept;

}  // namespace runnel
