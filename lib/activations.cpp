#include "lib/activations.h"

#include <algorithm>

namespace runnel {
namespace {

constexpr std::size_t max_logit_floats = std::size_t{4} << 20;  // 16 MB, or one row where that is more

std::size_t n_logit_rows(const Shape& shape, std::size_t batch) {
  return std::clamp<std::size_t>(max_logit_floats / shape.n_vocab, 1, batch);
}

std::size_t widest_hidden(const Shape& shape) { return std::max(shape.n_ff, shape.n_embd_attn()); }

std::size_t batch_rows(const CacheSize& size) { return static_cast<std::size_t>(size.batch); }

std::size_t expert_rows(const Model& model, const CacheSize& size) {
  return model.shape().n_expert > 0 ? batch_rows(size) : 0;
}

// The most of up to max_tok tokens that some product reads in each.
struct RoundedTokens {
  std::size_t int8, bf16, int16;
  RoundedTokens(const WeightKinds& kinds, const simd::Kernels& kernels, std::size_t max_tok)
      : int8(max_tok >= kinds.int8_from() ? std::min(max_tok, kinds.bf16_from(kernels) - 1) : 0),
        bf16(max_tok >= kinds.bf16_from(kernels) ? max_tok : 0),
        int16(max_tok >= kinds.int16_from(kernels) ? max_tok : 0) {}
};

}  // namespace

Rounded::Rounded(const Model& model, const simd::Kernels& kernels, std::size_t max_tok, std::size_t max_cols)
    : int8(kernels, RoundedTokens(model.weight_kinds(), kernels, max_tok).int8, max_cols),
      bf16(RoundedTokens(model.weight_kinds(), kernels, max_tok).bf16, max_cols),
      int16(kernels, RoundedTokens(model.weight_kinds(), kernels, max_tok).int16, max_cols) {}

std::size_t Rounded::n_bytes(const Model& model, const simd::Kernels& kernels, std::size_t max_tok,
                             std::size_t max_cols) {
  const RoundedTokens tokens(model.weight_kinds(), kernels, max_tok);
  return Int8Buffer::n_bytes(kernels, tokens.int8, max_cols) + Bf16Buffer::n_bytes(tokens.bf16, max_cols) +
         Int16Buffer::n_bytes(kernels, tokens.int16, max_cols);
}

ResidualStream::ResidualStream(const Model& model, const simd::Kernels& kernels, std::size_t max_tok)
    : x(max_tok, model.shape().n_embd),
      h(max_tok, model.shape().n_embd),
      h2(model.family().parallel_ffn ? max_tok : 0, model.shape().n_embd),
      in(model, kernels, max_tok, model.shape().n_embd),
      hidden(model, kernels, max_tok, widest_hidden(model.shape())) {}

std::size_t ResidualStream::n_bytes(const Model& model, const simd::Kernels& kernels, std::size_t max_tok) {
  const std::size_t n_rows = (model.family().parallel_ffn ? 3 : 2) * max_tok;
  return n_rows * model.shape().n_embd * sizeof(float) +
         Rounded::n_bytes(model, kernels, max_tok, model.shape().n_embd) +
         Rounded::n_bytes(model, kernels, max_tok, widest_hidden(model.shape()));
}

Activations::Activations(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                         std::size_t n_pairs, std::size_t n_threads)
    : shared(model, kernels, batch_rows(size)),
      own(n_threads, ResidualStream(model, kernels, 1)),
      q(batch_rows(size), model.shape().n_embd_q()),
      q_prefix(batch_rows(size), model.shape().n_embd_q()),
      k(batch_rows(size), model.shape().n_embd_k()),
      v(batch_rows(size), model.shape().n_embd_v()),
      attended(batch_rows(size), model.shape().n_embd_attn()),
      angles(batch_rows(size), 2 * n_pairs),
      prefix_angles(batch_rows(size), 2 * n_pairs),
      gate(batch_rows(size), model.shape().n_ff),
      up(batch_rows(size), model.shape().n_ff),
      router(expert_rows(model, size), model.shape().n_expert),
      expert(expert_rows(model, size), model.shape().n_embd),
      experts_out(expert_rows(model, size), model.shape().n_embd),
      last_hidden(model.shape().n_embd),
      logits(n_logit_rows(model.shape(), batch_rows(size)) * model.shape().n_vocab) {}

std::size_t Activations::n_bytes(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                                 std::size_t n_threads) {
  const Shape& s = model.shape();
  const std::size_t batch = batch_rows(size);
  const std::size_t row = 2 * s.n_embd_q() + s.n_embd_k() + s.n_embd_v() + s.n_embd_attn() +
                          2 * s.head_dim +  // cosines and sines, twice
                          2 * s.n_ff;
  const std::size_t expert_row = s.n_expert + 2 * s.n_embd;
  const std::size_t n_floats =
      batch * row + expert_rows(model, size) * expert_row + s.n_embd + n_logit_rows(s, batch) * s.n_vocab;
  return n_floats * sizeof(float) + ResidualStream::n_bytes(model, kernels, batch) +
         n_threads * ResidualStream::n_bytes(model, kernels, 1);
}

}  // namespace runnel
