#include "lib/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/linear/float_matmul.h"
#include "lib/linear/int16_matmul.h"
#include "lib/linear/panel_blocks.h"
#include "lib/linear/q8_0_matmul.h"

namespace runnel {
namespace {

using quant::TensorType;

// From how many tokens on Q8_0 weights are laid out once and multiplied as a matrix, rather than read anew by
// the matrix-vector kernel for every token (measured).
constexpr std::size_t min_tokens_q8_0 = 2;

// Of the weights of a thread's part that are multiplied in one piece with one token, or an eighth of that
// with eight and more: so few that nobody waits long for the last of them, so many that beginning anew is
// nothing to it, which packed weights do in several streams (measured).
constexpr double piece_bytes = 512 * 1024;
constexpr double packed_piece_bytes = 2 * piece_bytes;
constexpr double max_pieces = 8;
constexpr double max_pieces_bf16 = 3;  // each makes bf16 of its first weights before it multiplies (measured)
constexpr std::size_t max_times_read = 8;
// Pieces are whole tiles: the most panels that any instruction set takes side by side. With one token
// AVX2 takes three, and one is left over.
constexpr std::size_t piece_outputs = 4 * simd::panel_rows;

enum class Product { packed, few_tokens, floats, int16, q8_0 };

// From how many tokens on weights of F32, F16 or BF16 are laid out, of so many bytes each.
std::size_t laid_out_from(const simd::Kernels& k, std::size_t weight_bytes) {
  return k.most_few(weight_bytes) + 1;
}

Product product_of(const simd::Kernels& k, const Linear& w, std::size_t n_tok) {
  if (w.packed.codes) return Product::packed;
  if (w.type->type == TensorType::q8_0) return n_tok < min_tokens_q8_0 ? Product::few_tokens : Product::q8_0;
  if (n_tok < laid_out_from(k, w.type->block_bytes)) return Product::few_tokens;
  return w.type->type != TensorType::f32 && k.prefers_i16() ? Product::int16 : Product::floats;
}

// What is laid out in floats, and what in int16.
bool has_floats(const WeightKinds& kinds, const simd::Kernels& k) {
  return kinds.f32 || (kinds.halves && !k.prefers_i16());
}
bool has_int16(const WeightKinds& kinds, const simd::Kernels& k) { return kinds.halves && k.prefers_i16(); }

std::size_t n_floats(const WeightKinds& kinds, const simd::Kernels& k, std::size_t max_cols) {
  return std::max(has_floats(kinds, k) ? float_block_floats(max_cols) : 0,
                  has_int16(kinds, k) ? int16_panel_floats : 0);
}

std::size_t n_bf16(const WeightKinds& kinds, const simd::Kernels& k) {
  return kinds.bf16_from(k) == std::numeric_limits<std::size_t>::max() ? 0 : simd::bf16_scratch;
}

// That all of W's rows are worth.
double n_pieces_of(const Linear& w, std::size_t n_tok) {
  const double n_pieces = w.packed.codes ? static_cast<double>(w.packed.shape.n_codes()) / packed_piece_bytes
                                         : static_cast<double>(w.n_rows * w.row_bytes()) / piece_bytes;
  return n_pieces * static_cast<double>(std::min(n_tok, max_times_read));
}

// The weights as they lie.
void multiply_few(const simd::Kernels& k, const Linear& w, Range rows, ConstRows x, Rows y,
                  std::size_t n_tok) {
  const std::byte* const first = w.at(rows.begin);
  float* const out = y.data + rows.begin;
  switch (w.type->type) {
    case TensorType::f32:
      return k.matmul_few_f32(out, y.stride, reinterpret_cast<const float*>(first), rows.size(), w.n_cols,
                              x.data, x.stride, n_tok);
    case TensorType::f16:
      return k.matmul_few_f16(out, y.stride, reinterpret_cast<const simd::F16*>(first), rows.size(), w.n_cols,
                              x.data, x.stride, n_tok);
    case TensorType::bf16:
      return k.matmul_few_bf16(out, y.stride, reinterpret_cast<const simd::BF16*>(first), rows.size(),
                               w.n_cols, x.data, x.stride, n_tok);
    case TensorType::q8_0:
      for (std::size_t t = 0; t < n_tok; ++t) {
        k.matvec_q8_0(out + t * y.stride, reinterpret_cast<const quant::BlockQ8_0*>(first), rows.size(),
                      w.n_cols, x.data + t * x.stride);
      }
      return;
    default:
      return;  // model loading lets no other type through
  }
}

void finish(const simd::Kernels& k, const Linear& w, Range rows, float* y) {
  if (w.scale != 1.0f) k.scale(y, w.scale, rows.size());
  if (w.bias) k.add(y, w.bias + rows.begin, rows.size());
}

void multiply_packed(const simd::Kernels& kernels, LinearScratch& scratch, const quant::PanelsI8& w,
                     const void* next, const Input& x, Rows y, std::size_t n_tok) noexcept {
  if (n_tok < kernels.least_bf16())
    kernels.matmul_i8(y.data, y.stride, x.int8, n_tok, w, next);
  else
    kernels.matmul_bf16(y.data, y.stride, x.bf16, n_tok, w, next, scratch.bf16.data());
}

void multiply_q8_0(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& w, Range rows,
                   const std::byte* next, const Input& x, Rows y, std::size_t n_tok) noexcept {
  if (n_tok < kernels.least_bf16())
    q8_0_matmul(kernels, scratch, w, rows, next, x.int8, y, n_tok);
  else
    kernels.matmul_bf16_q8_0(y.data + rows.begin, y.stride, x.bf16, n_tok,
                             reinterpret_cast<const quant::BlockQ8_0*>(w.at(rows.begin)), rows.size(), next,
                             scratch.bf16.data());
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

Arithmetic arithmetic_of(const simd::Kernels& kernels, const Linear& w) noexcept {
  switch (product_of(kernels, w, std::numeric_limits<std::size_t>::max())) {
    case Product::packed:
    case Product::q8_0:
      return Arithmetic::i8;
    case Product::int16:
      return Arithmetic::i16;
    default:
      return Arithmetic::f32;
  }
}

void WeightKinds::add(const Linear& w) {
  if (w.packed.codes) {
    packed = true;
    return;
  }
  switch (w.type->type) {
    case TensorType::q8_0:
      q8_0 = true;
      break;
    case TensorType::f32:
      f32 = true;
      break;
    default:
      halves = true;
  }
}

std::size_t WeightKinds::int8_from() const {
  return packed ? 1 : q8_0 ? min_tokens_q8_0 : std::numeric_limits<std::size_t>::max();
}

std::size_t WeightKinds::bf16_from(const simd::Kernels& kernels) const {
  return std::max(int8_from(), kernels.least_bf16());
}

std::size_t WeightKinds::int16_from(const simd::Kernels& kernels) const {
  return has_int16(*this, kernels) ? laid_out_from(kernels, 2) : std::numeric_limits<std::size_t>::max();
}

std::size_t WeightKinds::least_alike(const simd::Kernels& kernels, std::size_t n_tok) const {
  std::size_t least = std::min(n_tok, std::size_t{2});  // what is done to one token is every thread's own
  for (const std::size_t from : {int8_from(), bf16_from(kernels), halves ? laid_out_from(kernels, 2) : 0,
                                 f32 ? laid_out_from(kernels, 4) : 0})
    if (from <= n_tok) least = std::max(least, from);
  return least;
}

LinearScratch::LinearScratch(const WeightKinds& kinds, const simd::Kernels& kernels, std::size_t max_cols)
    : floats(n_floats(kinds, kernels, max_cols)),
      int16(has_int16(kinds, kernels) ? int16_block().n_codes() : 0),
      int16_scales(has_int16(kinds, kernels) ? int16_block().n_scales() : 0),
      codes(kinds.q8_0 ? q8_0_block_codes(max_cols) : 0),
      scales(codes.size() / quant::BlockQ8_0::size),
      bf16(n_bf16(kinds, kernels)) {}

std::size_t LinearScratch::n_bytes(const WeightKinds& kinds, const simd::Kernels& kernels,
                                   std::size_t max_cols) {
  const std::size_t n_codes = kinds.q8_0 ? q8_0_block_codes(max_cols) : 0;
  const std::size_t n_int16 =
      has_int16(kinds, kernels) ? int16_block().n_codes() + int16_block().n_scales() : 0;
  return n_floats(kinds, kernels, max_cols) * sizeof(float) + n_int16 * sizeof(std::int16_t) + n_codes +
         n_codes / quant::BlockQ8_0::size * sizeof(std::uint16_t) +
         n_bf16(kinds, kernels) * sizeof(std::uint16_t);
}

SharedWork shared_rows(const simd::Kernels& kernels, std::initializer_list<const Linear*> products,
                       std::size_t n_tok, std::size_t n_threads) noexcept {
  SharedWork work{.n = 0, .multiple = simd::panel_rows};  // cuts no panel, and no cache line of outputs
  double n_pieces = 0;
  for (const Linear* w : products) {
    if (!*w) continue;
    work.n = w->n_rows;
    const Product product = product_of(kernels, *w, n_tok);
    if (product == Product::floats || product == Product::int16) {
      const SharedWork rows =
          product == Product::floats ? float_matmul_rows(*w, n_threads) : panel_block_pieces(*w, n_threads);
      work.multiple = std::max(work.multiple, rows.multiple);
      work.n_pieces = std::max(work.n_pieces, rows.n_pieces);
    } else {
      n_pieces += n_pieces_of(*w, n_tok) / static_cast<double>(n_threads);
    }
  }
  work.piece_multiple = filled_up(piece_outputs, work.multiple);
  const double most = n_tok < kernels.least_bf16() ? max_pieces : max_pieces_bf16;
  work.n_pieces = std::max(work.n_pieces, static_cast<std::size_t>(std::min(std::ceil(n_pieces), most)));
  return work;
}

void multiply(const simd::Kernels& kernels, LinearScratch& scratch, const Linear& linear, Range rows,
              const std::byte* next, const Input& x, Rows y, std::size_t n_tok) noexcept {
  const auto outputs = [&](std::size_t t) { return y.data + t * y.stride + rows.begin; };
  switch (product_of(kernels, linear, n_tok)) {
    case Product::packed:
      multiply_packed(kernels, scratch, linear.packed.rows(rows.begin, rows.size()), nullptr, x,
                      {outputs(0), y.stride}, n_tok);
      break;
    case Product::few_tokens:
      multiply_few(kernels, linear, rows, x.rows, y, n_tok);
      break;
    case Product::floats:
      float_matmul(kernels, scratch, linear, rows, x.rows, y, n_tok);
      break;
    case Product::int16:
      int16_matmul(kernels, scratch, linear, rows, x, y, n_tok);
      break;
    case Product::q8_0:
      multiply_q8_0(kernels, scratch, linear, rows, next, x, y, n_tok);
      break;
  }
  for (std::size_t t = 0; t < n_tok; ++t) finish(kernels, linear, rows, outputs(t));
}

void decode_row(const simd::Kernels& kernels, const Linear& linear, std::size_t row, float* y) noexcept {
  if (linear.packed.codes) return quant::decode_row_i8(y, linear.packed, row);
  const std::byte* in = linear.at(row);
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
