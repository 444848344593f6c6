#include "lib/model_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "lib/io/packed_file.h"
#include "lib/rope_loader.h"
#include "lib/text/number_text.h"
#include "lib/text/printable.h"

namespace runnel {
namespace {

// Bounds that no model comes near, so that sizes computed from products of two of them cannot overflow.
constexpr std::int64_t max_layers = 4096;
constexpr std::int64_t max_heads = 65536;
constexpr std::int64_t max_width = 1 << 24;
constexpr std::int64_t max_context = std::int64_t{1} << 32;
constexpr std::int64_t max_experts = 4096;
// Of all layers together. An expert may take 14 bytes of a file and takes some 250 of memory to describe;
// Kimi K2, which has the most, has a tenth of these.
constexpr std::size_t max_experts_in_all = std::size_t{1} << 18;
// What a row of activations may have for each of n_embd. A batch has hundreds of rows, and a small file is
// not to take gigabytes for them; of the models known T5 11B widens most, to 64 times.
constexpr std::size_t max_widening = 256;

// Tensors that logits do not depend on, whatever the family: the heads of rerankers, which lie beside the
// output matrix (cls.output.weight of Qwen 3, llama.cpp's src/models/qwen3.cpp); angles that old converters
// wrote out; scales of activations, and those of weights in families that do not apply them.
bool is_left_aside(std::string_view name) {
  return name.starts_with("cls.") || name.ends_with(".attn_rot_embd") || name.ends_with(".scale") ||
         name.ends_with(".input_scale");
}

}  // namespace

std::string ModelLoader::key(const char* name) const { return model_.architecture_ + "." + name; }

Result<void> ModelLoader::load() {
  RUNNEL_ASSIGN(model_.is_packed_, is_packed(file_));
  RUNNEL_TRY(read_shape());
  RUNNEL_TRY(read_factors());
  RUNNEL_TRY(read_weights());
  RUNNEL_TRY(refuse_unclaimed());
  for (const GgufTensor& t : file_.tensors()) {
    if (!is_packed_part(file_, t.name)) model_.n_parameters_ += t.n_elements();
  }
  return {};
}

Result<void> ModelLoader::read_shape() {
  const auto read = [&](std::size_t& to, const char* name, std::int64_t min,
                        std::int64_t max) -> Result<void> {
    RUNNEL_ASSIGN(const std::int64_t value, file_.get_int(key(name), min, max));
    to = static_cast<std::size_t>(value);
    return {};
  };
  const auto read_or = [&](std::size_t& to, const char* name, std::int64_t max,
                           std::size_t absent) -> Result<void> {
    RUNNEL_ASSIGN(const std::int64_t value,
                  file_.get_int(key(name), 1, max, static_cast<std::int64_t>(absent)));
    to = static_cast<std::size_t>(value);
    return {};
  };
  RUNNEL_TRY(read(shape_.n_embd, "embedding_length", 1, max_width));
  RUNNEL_TRY(read(shape_.n_layer, "block_count", 1, max_layers));
  RUNNEL_TRY(read(shape_.n_ctx_train, "context_length", 1, max_context));
  RUNNEL_TRY(read(shape_.n_head, "attention.head_count", 1, max_heads));
  RUNNEL_TRY(read_or(shape_.n_head_kv, "attention.head_count_kv", max_heads, shape_.n_head));
  RUNNEL_TRY(read(shape_.n_ff, "feed_forward_length", 1, max_width));
  RUNNEL_TRY(read_or(shape_.head_dim, "attention.key_length", max_width,
                     std::max<std::size_t>(1, shape_.n_embd / shape_.n_head)));
  RUNNEL_TRY(read_or(shape_.head_dim_v, "attention.value_length", max_width, shape_.head_dim));
  if (shape_.n_head % shape_.n_head_kv != 0)
    return error(RUNNEL_BAD_FILE, "%s: %s is %zu, which does not divide the %zu query heads",
                 file_.name().c_str(), key("attention.head_count_kv").c_str(), shape_.n_head_kv,
                 shape_.n_head);

  RUNNEL_ASSIGN(const std::int64_t n_expert, file_.get_int(key("expert_count"), 0, max_experts, 0));
  shape_.n_expert = static_cast<std::size_t>(n_expert);
  if (n_expert > 0) {
    RUNNEL_TRY(read(shape_.n_expert_used, "expert_used_count", 1, n_expert));
    RUNNEL_TRY(read_or(shape_.n_ff, "expert_feed_forward_length", max_width, shape_.n_ff));
  }
  if (const std::size_t n = shape_.n_layer * shape_.n_expert; n > max_experts_in_all)
    return error(RUNNEL_BAD_FILE, "%s: %s and %s make %zu experts, expected at most %zu",
                 file_.name().c_str(), key("block_count").c_str(), key("expert_count").c_str(), n,
                 max_experts_in_all);
  const bool has_expert_length = n_expert > 0 && file_.find(key("expert_feed_forward_length"));
  RUNNEL_TRY(
      check_width(has_expert_length ? "expert_feed_forward_length" : "feed_forward_length", shape_.n_ff));
  RUNNEL_TRY(check_width("attention.key_length", shape_.n_embd_q()));
  RUNNEL_TRY(check_width("attention.value_length", shape_.n_embd_attn()));
  if (model_.family_->window != WindowPattern::none) {
    RUNNEL_ASSIGN(const std::int64_t window, file_.get_int(key("attention.sliding_window"), 0, max_context,
                                                           model_.family_->default_window));
    shape_.native_window = static_cast<std::size_t>(window);
  }
  return {};
}

Result<void> ModelLoader::check_width(const char* name, std::size_t width) const {
  if (width <= max_widening * shape_.n_embd) return {};
  return error(RUNNEL_BAD_FILE,
               "%s: %s makes rows of %zu numbers, expected at most %zu times %s, which is %zu",
               file_.name().c_str(), key(name).c_str(), width, max_widening, key("embedding_length").c_str(),
               shape_.n_embd);
}

// Constants that are real numbers.
Result<void> ModelLoader::read_factors() {
  const Family& family = *model_.family_;
  constexpr std::nullopt_t required = std::nullopt;
  const auto read = [&](float& to, const char* name, std::optional<double> absent) -> Result<void> {
    RUNNEL_ASSIGN(const double value,
                  absent ? file_.get_real(key(name), *absent) : file_.get_real(key(name)));
    if (!std::isfinite(value) || std::fabs(value) > 1e9)
      return error(RUNNEL_BAD_FILE, "%s: %s is %s, expected a number of ordinary size", file_.name().c_str(),
                   key(name).c_str(), number_text(value, 6).c_str());
    to = static_cast<float>(value);
    return {};
  };
  const char* eps =
      family.norm == Norm::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  RUNNEL_TRY(read(shape_.norm_eps, eps, required));
  if (shape_.norm_eps < 0)
    return error(RUNNEL_BAD_FILE, "%s: %s is negative", file_.name().c_str(), key(eps).c_str());
  RUNNEL_TRY(read(shape_.attention_scale, "attention.scale", 0.0));
  const float n_scaled_by = shape_.n_layer == family.n_layer_scaled_by_width
                                ? static_cast<float>(shape_.n_embd) / static_cast<float>(shape_.n_head)
                                : static_cast<float>(shape_.head_dim);
  if (shape_.attention_scale == 0.0f) shape_.attention_scale = 1.0f / std::sqrt(n_scaled_by);
  if (family.default_attn_soft_cap != 0)
    RUNNEL_TRY(read(shape_.attn_soft_cap, "attn_logit_softcapping", family.default_attn_soft_cap));
  if (family.default_logit_soft_cap != 0)
    RUNNEL_TRY(read(shape_.logit_soft_cap, "final_logit_softcapping", family.default_logit_soft_cap));
  const double own_scale = family.scale_embedding ? std::sqrt(static_cast<double>(shape_.n_embd)) : 1.0;
  RUNNEL_TRY(read(shape_.embedding_scale, "embedding_scale", own_scale));
  RUNNEL_TRY(read(shape_.residual_scale, "residual_scale", 1.0));
  float logit_divisor = 1.0f;  // Granite's logit_scale divides
  RUNNEL_TRY(read(logit_divisor, "logit_scale", family.divides_logits ? required : std::optional(1.0)));
  // 0 stands for "not used".
  if (shape_.embedding_scale == 0.0f) shape_.embedding_scale = static_cast<float>(own_scale);
  for (float* factor : {&shape_.residual_scale, &logit_divisor})
    if (*factor == 0.0f) *factor = 1.0f;
  shape_.logit_scale = 1.0f / logit_divisor;
  if (family.positions == Positions::alibi)
    RUNNEL_TRY(read(shape_.alibi_max_bias, "attention.max_alibi_bias", 8.0));
  return {};
}

Result<void> ModelLoader::read_weights() {
  Weights& w = model_.weights_;
  const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
  if (!embedding) return missing("token_embd.weight");
  shape_.n_vocab = embedding->dims[1];
  if (model_.is_packed_) {
    RUNNEL_ASSIGN(shape_.n_vocab, packed_n_vocab(file_));  // the tensor has rows that fill up a panel
  }
  if (shape_.n_vocab > static_cast<std::size_t>(INT32_MAX))
    return error(RUNNEL_BAD_FILE, "%s: token_embd.weight has %zu rows, more than there are token ids",
                 file_.name().c_str(), shape_.n_vocab);
  if (model_.tokenizer_ && model_.tokenizer_->n_vocab() > shape_.n_vocab)
    return error(RUNNEL_BAD_FILE, "%s: tokenizer.ggml.tokens has %zu tokens, token_embd.weight rows for %zu",
                 file_.name().c_str(), model_.tokenizer_->n_vocab(), shape_.n_vocab);
  RUNNEL_ASSIGN(w.embedding, matrix("token_embd", shape_.n_vocab, shape_.n_embd));
  if (model_.family_->positions == Positions::learned) {
    RUNNEL_ASSIGN(w.position_embedding, matrix("position_embd", shape_.n_ctx_train, shape_.n_embd));
  }
  if (model_.family_->rotates())
    for (const char* name : {rope_freqs_tensor, rope_short_tensor, rope_long_tensor}) claim(name);
  if (model_.family_->embedding_norm) {
    RUNNEL_ASSIGN(w.embedding_norm, norm("token_embd_norm", shape_.n_embd));
  }
  RUNNEL_ASSIGN(w.output_norm, norm("output_norm", shape_.n_embd));
  if (has("output.weight")) {
    RUNNEL_ASSIGN(w.output, linear("output", shape_.n_vocab, shape_.n_embd));
  } else {
    w.output = w.embedding;  // tied: the matrix that reads tokens in also writes them out
    model_.weight_kinds_.add(w.output);
  }
  RUNNEL_ASSIGN(w.output.bias, optional_vector("output.bias", shape_.n_vocab));

  w.layers.resize(shape_.n_layer);
  for (std::size_t i = 0; i < shape_.n_layer; ++i) RUNNEL_TRY(read_layer(i, w.layers[i]));
  return {};
}

Result<void> ModelLoader::read_layer(std::size_t i, Layer& layer) {
  const std::string prefix = "blk." + std::to_string(i) + ".";
  const WindowPattern pattern = model_.family_->window;
  if (pattern == WindowPattern::all_layers || (pattern == WindowPattern::even_layers && i % 2 == 0))
    layer.window = shape_.native_window;
  RUNNEL_ASSIGN(layer.attn_norm, norm(prefix + "attn_norm", shape_.n_embd));
  RUNNEL_TRY(read_attention(prefix, layer));
  if (model_.family_->parallel_ffn) {
    // One norm serves both sides, unless there is a second for attention (Falcon 40B), in every layer.
    layer.ffn_norm = layer.attn_norm;
    if (has("blk.0.attn_norm_2.weight")) {
      RUNNEL_ASSIGN(layer.attn_norm, norm(prefix + "attn_norm_2", shape_.n_embd));
    }
  } else {
    RUNNEL_ASSIGN(layer.ffn_norm, norm(prefix + "ffn_norm", shape_.n_embd));
  }
  if (model_.family_->post_norms) {
    RUNNEL_ASSIGN(layer.attn_post_norm, norm(prefix + "post_attention_norm", shape_.n_embd));
    RUNNEL_ASSIGN(layer.ffn_post_norm, norm(prefix + "post_ffw_norm", shape_.n_embd));
  }
  return shape_.n_expert > 0 ? read_experts(prefix, layer) : read_ffn(prefix, layer);
}

Result<void> ModelLoader::read_attention(const std::string& prefix, Layer& layer) {
  const std::size_t n_q = shape_.n_embd_q(), n_k = shape_.n_embd_k(), n_v = shape_.n_embd_v();
  if (has(prefix + "attn_qkv.weight")) {
    RUNNEL_ASSIGN(const Linear qkv, linear(prefix + "attn_qkv", n_q + n_k + n_v, shape_.n_embd));
    RUNNEL_TRY(check_slices(qkv, prefix + "attn_qkv", {n_q, n_q + n_k}));
    layer.q = qkv.rows(0, n_q);
    layer.k = qkv.rows(n_q, n_k);
    layer.v = qkv.rows(n_q + n_k, n_v);
  } else {
    RUNNEL_ASSIGN(layer.q, linear(prefix + "attn_q", n_q, shape_.n_embd));
    RUNNEL_ASSIGN(layer.k, linear(prefix + "attn_k", n_k, shape_.n_embd));
    RUNNEL_ASSIGN(layer.v, linear(prefix + "attn_v", n_v, shape_.n_embd));
  }
  if (model_.family_->head_norms) {
    RUNNEL_ASSIGN(layer.q_norm, norm(prefix + "attn_q_norm", shape_.head_dim));
    RUNNEL_ASSIGN(layer.k_norm, norm(prefix + "attn_k_norm", shape_.head_dim));
  }
  RUNNEL_ASSIGN(layer.o, linear(prefix + "attn_output", shape_.n_embd, shape_.n_embd_attn()));
  return {};
}

Result<void> ModelLoader::read_ffn(const std::string& prefix, Layer& layer) {
  const std::size_t n_ff = shape_.n_ff;
  if (model_.family_->ffn == Ffn::gated_in_one) {
    RUNNEL_ASSIGN(const Linear both, linear(prefix + "ffn_up", 2 * n_ff, shape_.n_embd));
    RUNNEL_TRY(check_slices(both, prefix + "ffn_up", {n_ff}));
    layer.gate = both.rows(0, n_ff);
    layer.up = both.rows(n_ff, n_ff);
  } else {
    if (model_.family_->ffn == Ffn::gated) {
      RUNNEL_ASSIGN(layer.gate, linear(prefix + "ffn_gate", n_ff, shape_.n_embd));
    }
    RUNNEL_ASSIGN(layer.up, linear(prefix + "ffn_up", n_ff, shape_.n_embd));
  }
  RUNNEL_ASSIGN(layer.down, linear(prefix + "ffn_down", shape_.n_embd, n_ff));
  for (Linear* w : {&layer.gate, &layer.up, &layer.down}) settle_ffn_scale(*w);
  return {};
}

Result<void> ModelLoader::read_experts(const std::string& prefix, Layer& layer) {
  RUNNEL_ASSIGN(layer.router, linear(prefix + "ffn_gate_inp", shape_.n_expert, shape_.n_embd));
  RUNNEL_ASSIGN(const auto gates,
                linears(prefix + "ffn_gate_exps", shape_.n_expert, shape_.n_ff, shape_.n_embd));
  RUNNEL_ASSIGN(const auto ups, linears(prefix + "ffn_up_exps", shape_.n_expert, shape_.n_ff, shape_.n_embd));
  RUNNEL_ASSIGN(const auto downs,
                linears(prefix + "ffn_down_exps", shape_.n_expert, shape_.n_embd, shape_.n_ff));
  for (std::size_t e = 0; e < shape_.n_expert; ++e) {
    layer.experts.push_back({gates[e], ups[e], downs[e]});
    FfnWeights& expert = layer.experts.back();
    for (Linear* w : {&expert.gate, &expert.up, &expert.down}) settle_ffn_scale(*w);
  }
  return {};
}

// A packed matrix can be cut between panels only.
Result<void> ModelLoader::check_slices(const Linear& w, const std::string& name,
                                       std::initializer_list<std::size_t> cuts) const {
  for (const std::size_t cut : cuts)
    if (w.packed.codes && cut % quant::i8_panel_rows != 0)
      return error(RUNNEL_UNSUPPORTED,
                   "%s: packed tensor %s.weight is several matrices in one, cut at row %zu, expected a "
                   "multiple of %zu",
                   file_.name().c_str(), name.c_str(), cut, quant::i8_panel_rows);
  return {};
}

Result<Linear> ModelLoader::linear(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
  RUNNEL_ASSIGN(Linear result, matrix(name, n_rows, n_cols));
  model_.weight_kinds_.add(result);
  const bool needs_bias = model_.family_->biases && name.starts_with("blk.");
  RUNNEL_ASSIGN(result.bias,
                needs_bias ? vector(name + ".bias", n_rows) : optional_vector(name + ".bias", n_rows));
  RUNNEL_ASSIGN(const float* scale, optional_vector(name + ".scale", 1));
  if (scale) result.scale = *scale;
  return result;
}

Result<PackedStack> ModelLoader::packed(const std::string& name, std::size_t n_rows, std::size_t n_cols,
                                        std::size_t n_matrix) {
  claim(name + ".weight");
  claim(packed_scales_name(name + ".weight"));
  RUNNEL_ASSIGN(const PackedStack stack, find_packed(file_, name + ".weight", n_rows, n_cols, n_matrix));
  model_.n_parameters_ += std::uint64_t{stack.n_matrix} * n_rows * n_cols;
  return stack;
}

Result<Linear> ModelLoader::matrix(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
  Linear result;
  result.n_rows = n_rows;
  result.n_cols = n_cols;
  if (has_packed(file_, name + ".weight")) {
    RUNNEL_ASSIGN(const PackedStack stack, packed(name, n_rows, n_cols));
    result.packed = stack.first;
  } else {
    RUNNEL_ASSIGN(const GgufTensor* t, tensor(name + ".weight", {n_cols, n_rows}));
    result.type = t->type;
    result.data = t->data;
  }
  return result;
}

Result<std::vector<Linear>> ModelLoader::linears(const std::string& name, std::size_t n, std::size_t n_rows,
                                                 std::size_t n_cols) {
  PackedStack stack{};
  const GgufTensor* t = nullptr;
  if (has_packed(file_, name + ".weight")) {
    RUNNEL_ASSIGN(stack, packed(name, n_rows, n_cols, n));
  } else {
    RUNNEL_ASSIGN(t, tensor(name + ".weight", {n_cols, n_rows, n}));
  }
  RUNNEL_ASSIGN(const float* biases, optional_vector(name + ".bias", n * n_rows));
  RUNNEL_ASSIGN(const float* scales, optional_vector(name + ".scale", n));
  std::vector<Linear> result;
  for (std::size_t i = 0; i < n; ++i) {
    Linear one;
    one.n_rows = n_rows;
    one.n_cols = n_cols;
    if (t) {
      one.type = t->type;
      one.data = t->data + i * n_rows * one.row_bytes();
    } else {
      one.packed = stack.matrix(i);
    }
    if (biases) one.bias = biases + i * n_rows;
    if (scales) one.scale = scales[i];
    model_.weight_kinds_.add(one);
    result.push_back(one);
  }
  return result;
}

void ModelLoader::settle_ffn_scale(Linear& linear) {
  if (!model_.family_->scaled_ffn) linear.scale = 1.0f;
  if (!linear.bias || linear.scale == 1.0f) return;
  auto scaled = std::make_unique<float[]>(linear.n_rows);
  for (std::size_t i = 0; i < linear.n_rows; ++i) scaled[i] = linear.bias[i] * linear.scale;
  linear.bias = scaled.get();
  model_.converted_.push_back(std::move(scaled));
}

Result<NormWeights> ModelLoader::norm(const std::string& name, std::size_t n) {
  NormWeights result;
  RUNNEL_ASSIGN(result.gain, vector(name + ".weight", n));
  if (model_.family_->norm == Norm::layer) {
    RUNNEL_ASSIGN(result.bias, vector(name + ".bias", n));
  }
  return result;
}

Result<const float*> ModelLoader::vector(const std::string& name, std::size_t n) {
  RUNNEL_ASSIGN(const float* result, optional_vector(name, n));
  if (!result) return missing(name);
  return result;
}

Result<const float*> ModelLoader::optional_vector(const std::string& name, std::size_t n) {
  const GgufTensor* t = claim(name);
  if (!t) return nullptr;
  const std::uint64_t size = t->n_elements();
  if (size != n)
    return error(RUNNEL_BAD_FILE, "%s: tensor %s has shape %s, expected %zu numbers", file_.name().c_str(),
                 name.c_str(), shape_text(*t).c_str(), n);
  if (t->type->type == quant::TensorType::f32) return reinterpret_cast<const float*>(t->data);
  if (!t->type->holds_weights())
    return error(RUNNEL_BAD_FILE, "%s: tensor %s has type %s, expected real numbers", file_.name().c_str(),
                 name.c_str(), t->type->name);
  auto converted = std::make_unique<float[]>(n);
  t->type->decode(converted.get(), t->data, n);
  model_.converted_.push_back(std::move(converted));
  return model_.converted_.back().get();
}

Result<const GgufTensor*> ModelLoader::tensor(const std::string& name,
                                              std::initializer_list<std::uint64_t> dims) {
  const GgufTensor* t = claim(name);
  if (!t) return missing(name);
  std::size_t i = 0;
  bool same = true;
  for (std::uint64_t d : dims) same &= t->dims[i++] == d;
  for (; i < t->dims.size(); ++i) same &= t->dims[i] == 1;
  if (!same)
    return error(RUNNEL_BAD_FILE, "%s: tensor %s has shape %s, expected %s", file_.name().c_str(),
                 name.c_str(), shape_text(*t).c_str(), shape_text({dims.begin(), dims.size()}).c_str());
  if (!t->type->holds_weights())
    return error(RUNNEL_BAD_FILE, "%s: tensor %s has type %s, which holds no weights", file_.name().c_str(),
                 name.c_str(), t->type->name);
  return t;
}

const GgufTensor* ModelLoader::claim(const std::string& name) {
  const GgufTensor* t = file_.find_tensor(name);
  if (t) is_claimed_[static_cast<std::size_t>(t - file_.tensors().data())] = true;
  return t;
}

Result<void> ModelLoader::refuse_unclaimed() const {
  for (std::size_t i = 0; i < file_.tensors().size(); ++i) {
    const GgufTensor& t = file_.tensors()[i];
    if (is_claimed_[i] || is_left_aside(t.name)) continue;
    return error(RUNNEL_UNSUPPORTED, "%s: tensor %s: no part of architecture %s uses it",
                 file_.name().c_str(), printable(t.name).c_str(), model_.architecture_.c_str());
  }
  return {};
}

Error ModelLoader::missing(const std::string& name) const {
  return error(RUNNEL_BAD_FILE, "%s: tensor %s is missing", file_.name().c_str(), name.c_str());
}

}  // namespace runnel
