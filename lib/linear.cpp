#include "lib/linear.h"

#include <algorithm>

#include "lib/float_matmul.h"

namespace runnel {
namespace {

using quant::TensorType;

// From how many tokens on weights are decoded once and multiplied as a matrix, rather than read anew by the
// matrix-vector kernel for every token.
constexpr std::size_t min_tokens_for_matmul = 4;

void matvec(const simd::Kernels& k, const Linear& w, Range rows, const float* x, float* y) {
  const std::byte* first = w.at(rows.begin);
  switch (w.type->type) {
    case TensorType::f32:
      return k.matvec_f32(y, reinterpret_cast<const float*>(first), rows.size(), w.n_cols, x);
    case TensorType::f16:
      return k.matvec_f16(y, reinterpret_cast<const simd::F16*>(first), rows.size(), w.n_cols, x);
    case TensorType::bf16:
      return k.matvec_bf16(y, reinterpret_cast<const simd::BF16*>(first), rows.size(), w.n_cols, x);
    case TensorType::q8_0:
      return k.matvec_q8_0(y, reinterpret_cast<const quant::BlockQ8_0*>(first), rows.size(), w.n_cols, x);
    default:
      return;  // model loading lets no other type through
  }
}

void finish(const simd::Kernels& k, const Linear& w, Range rows, float* y) {
  if (w.scale != 1.0f) k.scale(y, w.scale, rows.size());
  if (w.bias) k.add(y, w.bias + rows.begin, rows.size());
}

}  // namespace

Linear Linear::rows(std::size_t begin, std::size_t n) const {
  Linear part = *this;
  if (packed.codes)
    part.packed = packed.rows(begin, n);
  else
    part.data = at(begin);
  part.n_rows = n;
  if (bias) part.bias = bias + begin;
  return part;
}

Int8Buffer::Int8Buffer(std::size_t max_tok, std::size_t max_cols)
    : codes_(quant::i8_room(max_tok) * quant::i8_padded(max_cols)),
      scales_(quant::i8_room(max_tok) * quant::i8_blocks(max_cols)),
      offsets_(scales_.size()),
      carried_(max_tok * quant::i8_max_carried(max_cols)),
      n_carried_(max_tok),
      maxima_(max_tok * quant::i8_blocks(max_cols)) {}

quant::ActivationsI8 Int8Buffer::of(std::size_t n_tok, std::size_t n_cols) noexcept {
  return {n_cols,          quant::i8_width(n_tok), codes_.data(),     scales_.data(),
          offsets_.data(), carried_.data(),        n_carried_.data(), maxima_.data()};
}

std::int64_t Int8Buffer::n_bytes(std::size_t max_tok, std::size_t max_cols) {
  const std::size_t for_each_place = quant::i8_padded(max_cols) + quant::i8_blocks(max_cols) * 8;
  const std::size_t for_each_token =
      quant::i8_max_carried(max_cols) * sizeof(quant::CarriedI8) + 4 + quant::i8_blocks(max_cols) * 4;
  return static_cast<std::int64_t>(quant::i8_room(max_tok) * for_each_place + max_tok * for_each_token);
}

Range own_rows(const Thread& thread, const Linear& linear, std::size_t n_tok) noexcept {
  if (!linear.packed.codes && n_tok >= min_tokens_for_matmul) return float_matmul_rows(thread, linear);
  return thread.split(linear.n_rows, simd::panel_rows);  // never cuts a panel, or a cache line of outputs
}

void multiply(Thread& thread, const simd::Kernels& kernels, LinearScratch& scratch, const Linear& linear,
              const Input& x, Rows y, std::size_t n_tok) noexcept {
  const Range rows = own_rows(thread, linear, n_tok);
  if (rows.size() == 0) return;
  const auto own_outputs = [&](std::size_t t) { return y.data + t * y.stride + rows.begin; };
  if (linear.packed.codes) {
    kernels.matmul_i8(own_outputs(0), y.stride, x.int8, n_tok, linear.packed.rows(rows.begin, rows.size()));
  } else if (n_tok >= min_tokens_for_matmul) {
    float_matmul(kernels, scratch, linear, rows, x.rows, y, n_tok);
  } else {
    for (std::size_t t = 0; t < n_tok; ++t)
      matvec(kernels, linear, rows, x.rows.data + t * x.rows.stride, own_outputs(t));
  }
  for (std::size_t t = 0; t < n_tok; ++t) finish(kernels, linear, rows, own_outputs(t));
}

void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, float* y) noexcept {
  if (linear.packed.codes) return quant::decode_row_i8(y, linear.packed, row);
  decode_row(kernels, linear, row, {0, linear.n_cols}, y);
}

void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, Range cols,
                float* y) noexcept {
  const std::byte* in = linear.at(row, cols.begin);
  switch (linear.type->type) {
    case TensorType::f16:
      return kernels.f16_to_f32(y, reinterpret_cast<const simd::F16*>(in), cols.size());
    case TensorType::bf16:
      return kernels.bf16_to_f32(y, reinterpret_cast<const simd::BF16*>(in), cols.size());
    default:
      return linear.type->decode(y, in, cols.size());
  }
}

}  // namespace runnel
