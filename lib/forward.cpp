#include "lib/forward.h"

#include <algorithm>
#include <cstring>

namespace runnel {
namespace {

// Fewer tokens wait for the weights of the last layer's keys and values, which are read once more for them.
constexpr std::size_t min_without_output = 16;

std::size_t widest(const Shape& shape) {
  return std::max({shape.n_embd, shape.n_ff, shape.n_embd_q(), shape.n_embd_attn()});
}

}  // namespace

Forward::Forward(const Model& model, const simd::Kernels& kernels, Rope rope, const CacheSize& size,
                 std::size_t n_threads)
    : model_(model),
      kernels_(kernels),
      rope_(std::move(rope)),
      attention_(model, kernels, size, n_threads),
      scratch_(n_threads, LinearScratch(model.weight_kinds(), kernels, widest(model.shape()))),
      a_(model, kernels, size, rope_.n_pairs(), n_threads),
      routing_(model.shape().n_expert > 0 ? static_cast<std::size_t>(size.batch) : 0, model.shape().n_expert,
               model.shape().n_expert_used) {}

std::int64_t Forward::n_bytes(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                              std::size_t n_threads) {
  const Shape& s = model.shape();
  std::size_t n = Activations::n_bytes(model, kernels, size, n_threads);
  if (s.n_expert > 0) n += Routing::n_bytes(static_cast<std::size_t>(size.batch), s.n_expert);
  n += n_threads * LinearScratch::n_bytes(model.weight_kinds(), kernels, widest(s));
  n += Attention::n_bytes(model, size, n_threads);
  return static_cast<std::int64_t>(n);
}

void Forward::resize_team(std::size_t n_threads) {
  scratch_.resize(n_threads, LinearScratch(model_.weight_kinds(), kernels_, widest(model_.shape())));
  a_.own.resize(n_threads, ResidualStream(model_, kernels_, 1));
  attention_.resize_team(n_threads);
}

std::int64_t Forward::position(std::size_t t) const noexcept { return first_ + static_cast<std::int64_t>(t); }

bool Forward::run(Team& team, KvCache& cache, std::span<const Token> tokens, Outputs outputs,
                  const std::atomic<bool>* stop) noexcept {
  cache_ = &cache;
  tokens_ = tokens;
  first_ = cache.position();
  stop_ = stop;
  is_given_up_ = false;
  const std::int64_t last = position(tokens.size() - 1);
  has_evicted_ = cache.cache_position(last) != last;
  const std::size_t n_layer = model_.shape().n_layer, n_left_out = n_without_output(outputs);
  team.run([&](Thread& thread) {
    embed(thread);
    for (std::size_t i = 0; i < n_layer && !is_given_up_; ++i) {
      if (i + 1 == n_layer && n_left_out > 0) leave_out(thread, i, n_left_out);
      layer(thread, i);
    }
    if (is_given_up_) return;
    ResidualStream& s = stream(thread);
    norm(thread, model_.weights().output_norm, s.x, s.h);
    thread.barrier();
    show(thread, Site::stream, n_layer, s.x);
    show(thread, Site::output_in, n_layer, s.h);
    if (thread.index() == 0) std::copy_n(s.h.row(tokens_.size() - 1), s.h.n_cols, a_.last_hidden.data());
  });
  return !is_given_up_;
}

void Forward::set_observer(Observer* observer) {
  observer_ = observer;
  attention_.set_observer(observer);
}

// Called where `rows` stay as they are until the next barrier.
void Forward::show(Thread& thread, Site site, std::size_t layer, const Buffer& rows) const noexcept {
  if (observer_ && thread.index() == 0)
    observer_->see({site, layer, rows, tokens_.size(), rows.n_cols, nullptr, 0, first_});
}

const float* Forward::restore_logits(std::span<const std::byte> row) noexcept {
  std::memcpy(a_.logits.data(), row.data(), row.size());
  return a_.logits.data();
}

const float* Forward::logits(Team& team, std::size_t begin, std::size_t end) noexcept {
  const bool is_batch = is_shared_out(tokens_.size());
  return project(team, is_batch ? a_.shared.h.row(begin) : a_.last_hidden.data(), end - begin);
}

const float* Forward::project(Team& team, const float* hidden, std::size_t n_tok) noexcept {
  const Shape& shape = model_.shape();
  team.run([&](Thread& thread) {
    const Linear& output = model_.weights().output;
    const Input x = prepare_all(thread, {hidden, shape.n_embd}, n_tok, &ResidualStream::in);
    thread.share(shared_rows(kernels_, {&output}, n_tok, thread.count()), [&](const Piece& piece) {
      linear(thread, output, piece.items, output.begin_of(piece.next), x, {a_.logits.data(), shape.n_vocab},
             n_tok);
      const Range rows = piece.items;
      for (std::size_t t = 0; t < n_tok; ++t) {
        float* y = a_.logits.data() + t * shape.n_vocab + rows.begin;
        if (shape.logit_scale != 1.0f) kernels_.scale(y, shape.logit_scale, rows.size());
        if (shape.logit_soft_cap > 0) kernels_.soft_cap(y, shape.logit_soft_cap, rows.size());
      }
    });
  });
  return a_.logits.data();
}

void Forward::embed(Thread& thread) noexcept {
  const Weights& w = model_.weights();
  ResidualStream& s = stream(thread);
  const Range own = own_tokens(thread, tokens_.size());
  for (std::size_t t = own.begin; t < own.end; ++t) {
    float* x = s.x.row(t);
    decode_row(kernels_, w.embedding, static_cast<std::size_t>(tokens_[t]), x);
    if (model_.shape().embedding_scale != 1.0f) kernels_.scale(x, model_.shape().embedding_scale, s.x.n_cols);
    if (w.position_embedding) {
      decode_row(kernels_, w.position_embedding, static_cast<std::size_t>(position(t)), s.h.row(t));
      kernels_.add(x, s.h.row(t), s.x.n_cols);
    }
    if (w.embedding_norm) norm_row(w.embedding_norm, x, x, s.x.n_cols);
  }
  find_angles(thread);
}

// Shared out, also of a single token: they are read some barriers later.
void Forward::find_angles(Thread& thread) noexcept {
  const std::size_t n_pairs = rope_.n_pairs();
  if (n_pairs == 0) return;
  const Range tokens = thread.split(tokens_.size());
  for (std::size_t t = tokens.begin; t < tokens.end; ++t) {
    rope_.angles(position(t), a_.angles.row(t), a_.angles.row(t) + n_pairs);
    if (has_evicted_)
      rope_.angles(cache_->cache_position(position(t)), a_.prefix_angles.row(t),
                   a_.prefix_angles.row(t) + n_pairs);
  }
}

// Between two barriers a thread touches only its own tokens (norms, residuals), its pieces of the rows
// (products) or its own heads (rotation, attention).
void Forward::layer(Thread& thread, std::size_t i) noexcept {
  const Layer& w = model_.weights().layers[i];
  const bool parallel = model_.family().parallel_ffn;
  const std::size_t n_tok = tokens_.size();
  ResidualStream& s = stream(thread);

  norm(thread, w.attn_norm, s.x, s.h);
  if (parallel) norm(thread, w.ffn_norm, s.x, s.h2);
  const Input attn_input = prepare(thread, s.h, n_tok, &ResidualStream::in);
  if (is_shared_out(n_tok)) {
    thread.barrier();
    if (stop_ && thread.index() == 0) is_given_up_ = stop_->load(std::memory_order_relaxed);
  }
  show(thread, Site::stream, i, s.x);
  show(thread, Site::attn_in, i, s.h);
  attention(thread, i, attn_input);
  add_to_stream(thread, a_.block_out(), w.attn_post_norm);

  Buffer& ffn_rows = parallel ? s.h2 : s.h;
  if (!parallel) norm(thread, w.ffn_norm, s.x, s.h);
  const Input ffn_input = prepare(thread, ffn_rows, n_tok, &ResidualStream::in);
  if (is_shared_out(n_tok)) thread.barrier();
  show(thread, Site::ffn_in, i, ffn_rows);
  if (w.router)
    experts(thread, i, ffn_input);
  else
    ffn(thread, w, ffn_input, a_.block_out(), {i, 0, nullptr, n_tok});
  add_to_stream(thread, w.router ? a_.experts_out : a_.block_out(), w.ffn_post_norm);
}

void Forward::attention(Thread& thread, std::size_t i, const Input& x) noexcept {
  const Layer& w = model_.weights().layers[i];
  const std::size_t n_tok = tokens_.size();
  linear(thread, w.q, x, a_.q, n_tok);
  linear(thread, w.k, x, a_.k, n_tok);
  linear(thread, w.v, x, a_.v, n_tok);
  thread.barrier();
  rotate_and_store(thread, i);
  thread.barrier();
  const Queries queries{a_.q, has_evicted_ ? a_.q_prefix : a_.q, first_, n_tok};
  attention_.run(thread, *cache_, i, queries, a_.attended);
  show(thread, Site::attn_out, i, a_.attended);
  const Input attended = prepare_all(thread, a_.attended, n_tok, &ResidualStream::hidden);
  linear(thread, w.o, attended, a_.block_out(), n_tok);
  thread.barrier();
}

void Forward::rotate_and_store(Thread& thread, std::size_t i) noexcept {
  const Layer& w = model_.weights().layers[i];
  const Shape& s = model_.shape();
  const std::size_t n_items = s.n_head + s.n_head_kv;  // a token's query heads, then its KV heads
  const Range items = thread.split(tokens_.size() * n_items);
  for (std::size_t item = items.begin; item < items.end; ++item) {
    const std::size_t t = item / n_items, head = item % n_items;
    if (head < s.n_head)
      rotate_query(w, t, head);
    else
      store(i, t, head - s.n_head);
  }
}

void Forward::rotate_query(const Layer& w, std::size_t t, std::size_t head) noexcept {
  const std::size_t dim = model_.shape().head_dim;
  float* q = a_.q.row(t) + head * dim;
  if (w.q_norm) norm_row(w.q_norm, q, q, dim);
  if (has_evicted_) {
    float* q_prefix = a_.q_prefix.row(t) + head * dim;
    std::copy_n(q, dim, q_prefix);
    rotate(q_prefix, a_.prefix_angles.row(t));
  }
  rotate(q, a_.angles.row(t));
}

void Forward::store(std::size_t i, std::size_t t, std::size_t head_kv) noexcept {
  const Layer& w = model_.weights().layers[i];
  const Shape& s = model_.shape();
  float* k = a_.k.row(t) + head_kv * s.head_dim;
  if (w.k_norm) norm_row(w.k_norm, k, k, s.head_dim);
  rotate(k, a_.angles.row(t));
  cache_->store(kernels_, i, head_kv, position(t), k, a_.v.row(t) + head_kv * s.head_dim_v);
}

// Those that are left are multiplied as the whole batch would be, and whole tiles of attention.
std::size_t Forward::n_without_output(Outputs outputs) const noexcept {
  if (outputs == Outputs::all || observer_) return 0;
  const std::size_t n_tok = tokens_.size(), tile = attention_.tile_tokens();
  const std::size_t least = model_.weight_kinds().least_alike(kernels_, n_tok);
  const std::size_t n = (n_tok - least) / tile * tile;
  return n < std::max(least, min_without_output) ? 0 : n;
}

void Forward::leave_out(Thread& thread, std::size_t i, std::size_t n) noexcept {
  const Layer& w = model_.weights().layers[i];
  const std::size_t n_tok = tokens_.size(), n_head_kv = model_.shape().n_head_kv;
  norm(thread, w.attn_norm, a_.shared.x, a_.shared.h);
  const Input x = prepare(thread, a_.shared.h, n_tok, &ResidualStream::in);
  thread.barrier();
  linear(thread, w.k, x, a_.k, n);
  linear(thread, w.v, x, a_.v, n);
  thread.barrier();
  const Range items = thread.split(n * n_head_kv);
  for (std::size_t item = items.begin; item < items.end; ++item) store(i, item / n_head_kv, item % n_head_kv);
  thread.barrier();
  if (thread.index() == 0) {
    for (Buffer* rows : {&a_.shared.x, &a_.angles, &a_.prefix_angles})
      std::copy(rows->row(n), rows->row(n_tok), rows->row(0));
    tokens_ = tokens_.subspan(n);
    first_ += static_cast<std::int64_t>(n);
  }
  thread.barrier();
}

void Forward::rotate(float* x, const float* angles) const noexcept {
  const std::size_t n_pairs = rope_.n_pairs();
  if (n_pairs == 0) return;
  if (model_.family().positions == Positions::rope_adjacent)
    kernels_.rope_adjacent(x, angles, angles + n_pairs, n_pairs);
  else
    kernels_.rope_halves(x, angles, angles + n_pairs, n_pairs);
}

// y = down(act(gate(x)) * up(x)), or down(gelu(up(x))). y may be x.
void Forward::ffn(Thread& thread, const FfnWeights& w, const Input& x, Rows y,
                  const FfnTokens& tokens) noexcept {
  const std::size_t n_tok = tokens.n;
  thread.share(shared_rows(kernels_, {&w.gate, &w.up}, n_tok, thread.count()), [&](const Piece& piece) {
    const Linear& first = w.gate ? w.gate : w.up;
    if (w.gate) linear(thread, w.gate, piece.items, w.up.begin_of(piece.items), x, a_.gate, n_tok);
    linear(thread, w.up, piece.items, first.begin_of(piece.next), x, a_.up, n_tok);
    activate(static_cast<bool>(w.gate), piece.items, n_tok);
  });
  thread.barrier();
  if (observer_ && thread.index() == 0)
    observer_->see(
        {Site::ffn_hidden, tokens.layer, a_.up, n_tok, a_.up.n_cols, tokens.index, tokens.expert, first_});
  const Input hidden = prepare_all(thread, a_.up, n_tok, &ResidualStream::hidden);
  linear(thread, w.down, hidden, y, n_tok);
  thread.barrier();
}

// up = act(gate) * up, or gelu(up).
void Forward::activate(bool is_gated, Range cols, std::size_t n_tok) noexcept {
  const Activation act = model_.family().activation;
  for (std::size_t t = 0; t < n_tok; ++t) {
    const float* gate = a_.gate.row(t) + cols.begin;
    float* up = a_.up.row(t) + cols.begin;
    if (!is_gated)
      kernels_.gelu(up, up, cols.size());
    else if (act == Activation::silu)
      kernels_.silu_mul(up, gate, up, cols.size());
    else
      kernels_.gelu_mul(up, gate, up, cols.size());
  }
}

// A mixture of experts: each expert takes the tokens the router sends it, together.
void Forward::experts(Thread& thread, std::size_t i_layer, const Input& x) noexcept {
  const Layer& w = model_.weights().layers[i_layer];
  linear(thread, w.router, x, a_.router, tokens_.size());
  thread.barrier();
  if (thread.index() == 0) routing_.assign(a_.router.row(0), tokens_.size());
  const Range own = thread.split(tokens_.size());
  for (std::size_t t = own.begin; t < own.end; ++t)
    std::fill_n(a_.experts_out.row(t), a_.experts_out.n_cols, 0.0f);
  thread.barrier();
  for (std::size_t e = 0; e < w.experts.size(); ++e) {
    const Routing::Share share = routing_.of(e);
    if (share.n == 0) continue;
    const Range mine = thread.split(share.n);
    for (std::size_t i = mine.begin; i < mine.end; ++i)
      std::copy_n(x.rows.data + share.tokens[i] * x.rows.stride, a_.expert.n_cols, a_.expert.row(i));
    const Input input = prepare(mine, a_.expert, share.n, a_.shared.in);
    thread.barrier();
    ffn(thread, w.experts[e], input, a_.expert, {i_layer, e, share.tokens, share.n});
    for (std::size_t i = mine.begin; i < mine.end; ++i)
      kernels_.add_scaled(a_.experts_out.row(share.tokens[i]), a_.expert.row(i), share.weights[i],
                          a_.expert.n_cols);
    thread.barrier();
  }
}

Input Forward::prepare(Range tokens, ConstRows rows, std::size_t n_tok, Rounded& rounded) noexcept {
  const std::size_t n_cols = rows.stride;
  Input input{rows, {}, {}, {}};
  if (reads_int8(n_tok)) input.int8 = rounded.int8.of(n_tok, n_cols);
  if (reads_bf16(n_tok)) input.bf16 = rounded.bf16.of(n_tok, n_cols);
  if (reads_int16(n_tok)) input.int16 = rounded.int16.of(n_tok, n_cols);
  if (tokens.size() == 0) return input;
  const Input some = input.tokens(tokens.begin);
  if (reads_int8(n_tok)) kernels_.quantize_i8(some.int8, some.rows.data, n_cols, tokens.size());
  if (reads_bf16(n_tok)) kernels_.round_bf16(some.bf16, some.rows.data, n_cols, tokens.size());
  if (reads_int16(n_tok)) kernels_.quantize_i16(some.int16, some.rows.data, n_cols, tokens.size());
  return input;
}

Input Forward::prepare(Thread& thread, ConstRows rows, std::size_t n_tok,
                       Rounded ResidualStream::*rounded) noexcept {
  return prepare(own_tokens(thread, n_tok), rows, n_tok, stream(thread, n_tok).*rounded);
}

Input Forward::prepare_all(Thread& thread, ConstRows rows, std::size_t n_tok,
                           Rounded ResidualStream::*rounded) noexcept {
  const Input input = prepare(thread, rows, n_tok, rounded);
  if (is_shared_out(n_tok) && reads_rounded(n_tok)) thread.barrier();
  return input;
}

void Forward::linear(Thread& thread, const Linear& w, const Input& x, Rows y, std::size_t n_tok) noexcept {
  thread.share(shared_rows(kernels_, {&w}, n_tok, thread.count()), [&](const Piece& piece) {
    linear(thread, w, piece.items, w.begin_of(piece.next), x, y, n_tok);
  });
}

void Forward::linear(Thread& thread, const Linear& w, Range rows, const std::byte* next, const Input& x,
                     Rows y, std::size_t n_tok) noexcept {
  multiply(kernels_, scratch_[thread.index()], w, rows, next, x, y, n_tok);
}

void Forward::norm(Thread& thread, const NormWeights& w, Buffer& x, Buffer& y) noexcept {
  const Range own = own_tokens(thread, tokens_.size());
  for (std::size_t t = own.begin; t < own.end; ++t) norm_row(w, x.row(t), y.row(t), x.n_cols);
}

void Forward::add_to_stream(Thread& thread, Buffer& added, const NormWeights& post_norm) noexcept {
  const float scale = model_.shape().residual_scale;
  ResidualStream& s = stream(thread);
  const Range own = own_tokens(thread, tokens_.size());
  for (std::size_t t = own.begin; t < own.end; ++t) {
    const float* y = added.row(t);
    if (post_norm) {
      norm_row(post_norm, y, s.h.row(t), s.h.n_cols);
      y = s.h.row(t);
    }
    if (scale == 1.0f)
      kernels_.add(s.x.row(t), y, s.x.n_cols);
    else
      kernels_.add_scaled(s.x.row(t), y, scale, s.x.n_cols);
  }
}

void Forward::norm_row(const NormWeights& w, const float* x, float* y, std::size_t n) const noexcept {
  if (model_.family().norm == Norm::rms)
    kernels_.rms_norm(y, x, w.gain, n, model_.shape().norm_eps);
  else
    kernels_.layer_norm(y, x, w.gain, w.bias, n, model_.shape().norm_eps);
}

}  // namespace runnel
