#include "tests/stream/slow_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "quant/float16.h"

namespace runnel::test {
namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double table_gelu(double x) {
  const auto rounded = [](double value) {
    return static_cast<double>(quant::f16_to_f32(quant::f32_to_f16(static_cast<float>(value))));
  };
  return std::fabs(x) < 10 ? rounded(gelu(rounded(x))) : std::max(x, 0.0);  // the table ends at 10
}

std::vector<double> decode(const Linear& w, std::size_t row) {
  std::vector<float> f(w.n_cols);
  w.type->decode(f.data(), w.data + row * w.row_bytes(), w.n_cols);
  return {f.begin(), f.end()};
}

}  // namespace

SlowDecoder::SlowDecoder(const Model& model, std::size_t n_prefix, std::size_t window, bool by_turn)
    : model_(model), n_prefix_(n_prefix), window_(window), by_turn_(by_turn) {
  const auto positions = model.family().positions;
  if (positions != Positions::rope_adjacent && positions != Positions::rope_halves) return;
  // Plain rotation only (Su et al. 2021): the models of these tests have no scaling but perhaps factors.
  const auto head_dim = static_cast<std::int64_t>(model.shape().head_dim);
  const auto n_rot =
      *model.file().get_int(model.architecture() + ".rope.dimension_count", 1, head_dim, head_dim);
  const double base = *model.file().get_real(model.architecture() + ".rope.freq_base", 10000.0);
  for (std::int64_t i = 0; i < n_rot; i += 2)
    frequencies_.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(n_rot)));
  // Llama 3's factors, or LongRoPE's: those for sessions beyond the context of the first training are others.
  const bool is_long = n_prefix + window > model.shape().n_ctx_train;
  for (const char* name :
       {"rope_freqs.weight", is_long ? "rope_factors_long.weight" : "rope_factors_short.weight"}) {
    const GgufTensor* factors = model.file().find_tensor(name);
    for (std::size_t i = 0; factors && i < frequencies_.size(); ++i) {
      float factor;
      std::memcpy(&factor, factors->data + i * sizeof factor, sizeof factor);
      frequencies_[i] /= static_cast<double>(factor);
    }
  }
}

std::vector<double> SlowDecoder::read(Token token, bool begins_turn) {
  if (cache_.size() == n_prefix_ + window_) make_room(begins_turn);
  return read_into(token, begins_turn);
}

std::vector<Token> SlowDecoder::visible() const {
  std::vector<Token> tokens;
  for (const Seen& seen : cache_) tokens.push_back(seen.token);
  return tokens;
}

void SlowDecoder::make_room(bool begins_turn) {
  const std::size_t kept = first_kept(begins_turn);
  cache_.erase(cache_.begin() + static_cast<std::ptrdiff_t>(n_prefix_),
               cache_.begin() + static_cast<std::ptrdiff_t>(kept));
  if (model_.family().positions != Positions::learned) return;
  const std::vector<Seen> again = std::move(cache_);
  cache_.clear();
  for (const Seen& seen : again) read_into(seen.token, seen.begins_turn);
}

// Of the full cache: the first token behind the prefix that stays. begins_turn: of the token to come.
std::size_t SlowDecoder::first_kept(bool begins_turn) const {
  const bool is_learned = model_.family().positions == Positions::learned;
  const std::size_t by_token = is_learned ? cache_.size() - window_ / 2 : n_prefix_ + 1;
  if (!by_turn_) return by_token;
  const auto begins = [&](std::size_t i) { return i < cache_.size() ? cache_[i].begins_turn : begins_turn; };
  for (std::size_t i = by_token; i <= cache_.size(); ++i)
    if (begins(i)) return i;
  for (std::size_t i = by_token; i > n_prefix_ + 1; --i)
    if (begins(i - 1)) return i - 1;
  return by_token;
}

SlowDecoder::Vector SlowDecoder::read_into(Token token, bool begins_turn) {
  const Shape& s = model_.shape();
  const Weights& w = model_.weights();
  cache_.push_back({token, begins_turn, std::vector<Vector>(s.n_layer), std::vector<Vector>(s.n_layer)});

  Vector x = decode(w.embedding, static_cast<std::size_t>(token));
  for (double& v : x) v *= static_cast<double>(s.embedding_scale);
  if (w.position_embedding) {
    const Vector p = decode(w.position_embedding, cache_.size() - 1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += p[i];
  }
  if (w.embedding_norm) x = norm(w.embedding_norm, x);
  for (std::size_t i = 0; i < s.n_layer; ++i) {
    const Layer& layer = w.layers[i];
    const Vector side = model_.family().parallel_ffn ? norm(layer.ffn_norm, x) : Vector{};
    add(x, layer.attn_post_norm, attention(layer, i, norm(layer.attn_norm, x)));
    const Vector in = model_.family().parallel_ffn ? side : norm(layer.ffn_norm, x);
    add(x, layer.ffn_post_norm, layer.router ? experts(layer, in) : ffn(layer, in));
  }
  Vector logits = multiply(w.output, norm(w.output_norm, x));
  for (double& l : logits) {
    l *= static_cast<double>(s.logit_scale);
    if (s.logit_soft_cap > 0)
      l = static_cast<double>(s.logit_soft_cap) * std::tanh(l / static_cast<double>(s.logit_soft_cap));
  }
  return logits;
}

void SlowDecoder::add(Vector& stream, const NormWeights& post_norm, Vector y) const {
  if (post_norm) y = norm(post_norm, y);
  for (std::size_t i = 0; i < stream.size(); ++i)
    stream[i] += static_cast<double>(model_.shape().residual_scale) * y[i];
}

SlowDecoder::Vector SlowDecoder::multiply(const Linear& w, const Vector& x) const {
  std::vector<float>& weights = decoded_[w.data];
  if (weights.empty()) {
    weights.resize(w.n_rows * w.n_cols);
    w.type->decode(weights.data(), w.data, weights.size());
  }
  Vector y(w.n_rows);
  for (std::size_t r = 0; r < w.n_rows; ++r) {
    const float* row = weights.data() + r * w.n_cols;
    constexpr std::size_t n_sums = 8;  // since one alone would wait for itself
    double sums[n_sums] = {};
    std::size_t c = 0;
    for (; c + n_sums <= w.n_cols; c += n_sums)
      for (std::size_t i = 0; i < n_sums; ++i) sums[i] += static_cast<double>(row[c + i]) * x[c + i];
    for (; c < w.n_cols; ++c) sums[0] += static_cast<double>(row[c]) * x[c];
    const double sum = std::accumulate(sums, sums + n_sums, 0.0);
    y[r] = sum * static_cast<double>(w.scale) + (w.bias ? static_cast<double>(w.bias[r]) : 0.0);
  }
  return y;
}

SlowDecoder::Vector SlowDecoder::norm(const NormWeights& w, const Vector& x) const {
  const auto n = static_cast<double>(x.size());
  double mean = 0, square = 0;
  if (model_.family().norm == Norm::layer)
    for (const double v : x) mean += v / n;
  for (const double v : x) square += (v - mean) * (v - mean) / n;
  const double scale = 1 / std::sqrt(square + static_cast<double>(model_.shape().norm_eps));
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - mean) * scale * static_cast<double>(w.gain[i]) +
           (w.bias ? static_cast<double>(w.bias[i]) : 0.0);
  return y;
}

void SlowDecoder::rotate(double* head, double cache_position) const {
  const std::size_t n = frequencies_.size();
  const bool adjacent = model_.family().positions == Positions::rope_adjacent;
  for (std::size_t i = 0; i < n; ++i) {
    double& a = head[adjacent ? 2 * i : i];
    double& b = head[adjacent ? 2 * i + 1 : i + n];
    const double c = std::cos(cache_position * frequencies_[i]),
                 s = std::sin(cache_position * frequencies_[i]);
    const double rotated = a * c - b * s;
    b = a * s + b * c;
    a = rotated;
  }
}

double SlowDecoder::alibi_slope(std::size_t head) const {
  // For a power of two of heads, as in the models of these tests (Press et al. 2022).
  return std::pow(2.0, -static_cast<double>(model_.shape().alibi_max_bias) * static_cast<double>(head + 1) /
                           static_cast<double>(model_.shape().n_head));
}

SlowDecoder::Vector SlowDecoder::attention(const Layer& layer, std::size_t i_layer, const Vector& x) {
  const Shape& s = model_.shape();
  Vector q = multiply(layer.q, x), k = multiply(layer.k, x);
  const auto norm_heads = [&](Vector& heads, const NormWeights& w) {
    if (!w) return;
    for (auto at = heads.begin(); at != heads.end(); at += static_cast<std::ptrdiff_t>(s.head_dim)) {
      const Vector y = norm(w, Vector(at, at + static_cast<std::ptrdiff_t>(s.head_dim)));
      std::copy(y.begin(), y.end(), at);
    }
  };
  norm_heads(q, layer.q_norm);
  norm_heads(k, layer.k_norm);
  cache_.back().keys[i_layer] = k;
  cache_.back().values[i_layer] = multiply(layer.v, x);

  const std::size_t here = cache_.size() - 1;
  const std::size_t first = layer.window > 0 && here + 1 > layer.window ? here + 1 - layer.window : 0;
  Vector out(s.n_embd_attn());
  for (std::size_t h = 0; h < s.n_head; ++h) {
    const std::size_t kv = h / (s.n_head / s.n_head_kv);
    Vector query(q.begin() + static_cast<std::ptrdiff_t>(h * s.head_dim),
                 q.begin() + static_cast<std::ptrdiff_t>((h + 1) * s.head_dim));
    rotate(query.data(), static_cast<double>(here));
    Vector scores;
    for (std::size_t j = first; j <= here; ++j) {
      const Vector& all = cache_[j].keys[i_layer];
      Vector key(all.begin() + static_cast<std::ptrdiff_t>(kv * s.head_dim),
                 all.begin() + static_cast<std::ptrdiff_t>((kv + 1) * s.head_dim));
      rotate(key.data(), static_cast<double>(j));
      double score = 0;
      for (std::size_t i = 0; i < s.head_dim; ++i) score += query[i] * key[i];
      score *= static_cast<double>(s.attention_scale);
      if (s.attn_soft_cap > 0)
        score =
            static_cast<double>(s.attn_soft_cap) * std::tanh(score / static_cast<double>(s.attn_soft_cap));
      if (model_.family().positions == Positions::alibi)
        score -= alibi_slope(h) * static_cast<double>(here - j);
      scores.push_back(score);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - max);
    for (std::size_t j = first; j <= here; ++j)
      for (std::size_t i = 0; i < s.head_dim_v; ++i)
        out[h * s.head_dim_v + i] +=
            scores[j - first] / sum * cache_[j].values[i_layer][kv * s.head_dim_v + i];
  }
  return multiply(layer.o, out);
}

double SlowDecoder::activate(double x) const {
  if (model_.family().activation == Activation::silu) return silu(x);
  return has_gelu_table_ ? table_gelu(x) : gelu(x);
}

SlowDecoder::Vector SlowDecoder::ffn(const FfnWeights& w, const Vector& x) const {
  Vector up = multiply(w.up, x);
  const Vector gate = w.gate ? multiply(w.gate, x) : up;
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = activate(gate[i]) * (w.gate ? up[i] : 1.0);
  return multiply(w.down, up);
}

SlowDecoder::Vector SlowDecoder::experts(const Layer& layer, const Vector& x) const {
  const Vector scores = multiply(layer.router, x);
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(model_.shape().n_expert_used);
  double sum = 0;
  for (const std::size_t e : order) sum += std::exp(scores[e]);
  Vector out(x.size());
  for (const std::size_t e : order) {
    const Vector y = ffn(layer.experts[e], x);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += std::exp(scores[e]) / sum * y[i];
  }
  return out;
}

}  // namespace runnel::test
