#include "lib/linear.h"

#include <algorithm>

#include "lib/machine.h"
#if defined(RUNNEL_BLAS)
#include <cblas.h>
#endif

namespace runnel {
namespace {

using quant::TensorType;

// From how many tokens on a block of weights is unpacked once and multiplied as a matrix, rather than read
// anew by the matrix-vector kernel for every token.
constexpr std::size_t min_tokens_for_matmul = 4;

// Rows are dealt to threads in multiples of this, so that the split never cuts a panel or a cache line of
// outputs.
constexpr std::size_t row_multiple = simd::panel_rows;

// Unpacked rows that a thread works on at a time: half a megabyte, to stay in its L2 cache beside the
// activations.
constexpr std::size_t block_floats = std::size_t{128} * 1024;

// The same for every team, so that OpenBLAS sees the same shapes and gives the same bits; at least 8 blocks
// of a matrix where it has the rows, for the threads to share.
std::size_t block_rows(const Linear& w) {
  const auto rounded = [](std::size_t n) { return n / row_multiple * row_multiple; };
  return std::clamp(std::min(rounded(block_floats / w.n_cols), rounded(w.n_rows / 8)), row_multiple,
                    std::size_t{256});
}

void matvec(const simd::Kernels& k, const Linear& w, Range rows, const float* x, float* y) {
  const std::byte* first = w.data + rows.begin * w.row_bytes();
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

// y[t, r] for the rows of one block; `rows` is small enough for the scratch.
void multiply_block(const simd::Kernels& k, LinearScratch& scratch, const Linear& w, Range rows, ConstRows x,
                    Rows y, std::size_t n_tok) {
  const float* weights = reinterpret_cast<const float*>(w.data) + rows.begin * w.n_cols;
  if (w.type->type != TensorType::f32) {
    for (std::size_t r = 0; r < rows.size(); ++r)
      decode_row(k, w, rows.begin + r, scratch.rows.data() + r * w.n_cols);
    weights = scratch.rows.data();
  }
#if defined(RUNNEL_BLAS)
  if (blas_is_usable()) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(n_tok),
                static_cast<int>(rows.size()), static_cast<int>(w.n_cols), 1.0f, x.data,
                static_cast<int>(x.stride), weights, static_cast<int>(w.n_cols), 0.0f, y.data + rows.begin,
                static_cast<int>(y.stride));
    return;
  }
#endif
  const std::size_t panel_floats = simd::panel_rows * w.n_cols;
  for (std::size_t r = 0; r < rows.size(); r += simd::panel_rows)
    k.pack_panel(scratch.panels.data() + r / simd::panel_rows * panel_floats, weights + r * w.n_cols,
                 w.n_cols, std::min(simd::panel_rows, rows.size() - r), w.n_cols);
  for (std::size_t t = 0; t < n_tok; ++t) std::fill_n(y.data + t * y.stride + rows.begin, rows.size(), 0.0f);
  k.matmul_panels(y.data + rows.begin, y.stride, x.data, x.stride, n_tok, scratch.panels.data(), rows.size(),
                  w.n_cols);
}

}  // namespace

Linear Linear::rows(std::size_t begin, std::size_t n) const {
  Linear part = *this;
  if (packed.codes)
    part.packed = packed.rows(begin, n);
  else
    part.data = data + begin * row_bytes();
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

LinearScratch::LinearScratch(std::size_t max_cols) : rows(n_floats(max_cols)), panels(n_floats(max_cols)) {}

// The largest block: of few very long rows, or of rows that fill it exactly.
std::size_t LinearScratch::n_floats(std::size_t max_cols) {
  return std::max(block_floats, row_multiple * max_cols);
}

Range own_rows(const Thread& thread, const Linear& linear, std::size_t n_tok) noexcept {
  if (linear.packed.codes || n_tok < min_tokens_for_matmul) return thread.split(linear.n_rows, row_multiple);
  return thread.split(linear.n_rows, block_rows(linear));
}

void multiply(Thread& thread, const simd::Kernels& kernels, LinearScratch& scratch, const Linear& linear,
              const Input& x, Rows y, std::size_t n_tok) noexcept {
  const Range rows = own_rows(thread, linear, n_tok);
  if (linear.packed.codes) {
    if (rows.size() == 0) return;
    kernels.matmul_i8(y.data + rows.begin, y.stride, x.int8, n_tok,
                      linear.packed.rows(rows.begin, rows.size()));
    for (std::size_t t = 0; t < n_tok; ++t) finish(kernels, linear, rows, y.data + t * y.stride + rows.begin);
    return;
  }
  if (n_tok < min_tokens_for_matmul) {
    for (std::size_t t = 0; t < n_tok; ++t) {
      float* out = y.data + t * y.stride + rows.begin;
      matvec(kernels, linear, rows, x.rows.data + t * x.rows.stride, out);
      finish(kernels, linear, rows, out);
    }
    return;
  }
  const std::size_t block = block_rows(linear);
  for (std::size_t begin = rows.begin; begin < rows.end; begin += block) {
    const Range part{begin, std::min(rows.end, begin + block)};
    multiply_block(kernels, scratch, linear, part, x.rows, y, n_tok);
    for (std::size_t t = 0; t < n_tok; ++t) finish(kernels, linear, part, y.data + t * y.stride + part.begin);
  }
}

void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, float* y) noexcept {
  if (linear.packed.codes) return quant::decode_row_i8(y, linear.packed, row);
  const std::byte* in = linear.data + row * linear.row_bytes();
  switch (linear.type->type) {
    case TensorType::f16:
      return kernels.f16_to_f32(y, reinterpret_cast<const simd::F16*>(in), linear.n_cols);
    case TensorType::bf16:
      return kernels.bf16_to_f32(y, reinterpret_cast<const simd::BF16*>(in), linear.n_cols);
    default:
      return linear.type->decode(y, in, linear.n_cols);
  }
}

}  // namespace runnel
