#include "tests/int8/quality.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "quant/float16.h"
#include "tests/support/model_weights.h"
#include "tests/support/require.h"

namespace runnel::test {
namespace {

double log_sum(const float* logits, std::size_t n) {
  const double max = static_cast<double>(*std::max_element(logits, logits + n));
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  return std::log(sum) + max;
}

// A model that reads chunk after chunk.
class Reader {
 public:
  Reader(ModelRun& run, std::size_t n_chunk)
      : model_(require(Model::open(run.path, {}))),
        kernels_(simd::select(nullptr, simd::cpu_features(), &row_)),
        size_{.n_prefix = 0,
              .window = static_cast<std::int64_t>(n_chunk),
              .batch = static_cast<std::int64_t>(n_chunk)},
        cache_(*model_, size_, CacheType::f32),
        forward_(*model_, kernels_, require(model_->rope(n_chunk)), size_, 1) {
    forward_.set_observer(&run.changes);
  }

  std::size_t n_vocab() const { return model_->shape().n_vocab; }

  // Logits after tokens [first, end) of the chunk.
  std::vector<float> read(const std::vector<Token>& chunk, std::size_t first) {
    cache_.clear();
    forward_.run(team_, cache_, chunk, Outputs::all);
    std::vector<float> all;
    for (std::size_t t = first; t < chunk.size(); t += forward_.max_logits()) {
      const std::size_t end = std::min(chunk.size(), t + forward_.max_logits());
      const float* logits = forward_.logits(team_, t, end);
      all.insert(all.end(), logits, logits + (end - t) * n_vocab());
    }
    return all;
  }

 private:
  std::shared_ptr<const Model> model_;
  const simd::IsaRow* row_ = nullptr;
  simd::Kernels kernels_;
  CacheSize size_;
  Team team_{1};
  KvCache cache_;
  Forward forward_;
};

bool is_matrix(const WeightTensor& tensor) { return tensor.rank > 1; }

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

void round_to_int8(float* row, std::size_t n, std::size_t block, bool scale_is_f16) {
  if (block == 0) block = n;
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    float max = 0;
    for (std::size_t i = begin; i < end; ++i) max = std::max(max, std::fabs(row[i]));
    const float scale = max / 127, inverse = scale > 0 ? 1 / scale : 0;
    const float stored = scale_is_f16 ? quant::f16_to_f32(quant::f32_to_f16(scale)) : scale;
    for (std::size_t i = begin; i < end; ++i) row[i] = std::round(row[i] * inverse) * stored;
  }
}

void round_to_f16(float* row, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] = quant::f16_to_f32(quant::f32_to_f16(row[i]));
}

void Changes::see(const Observation& what) noexcept {
  // The rows are the forward pass's own buffers; with one thread nobody reads them meanwhile.
  const auto row = [&](std::size_t t) { return const_cast<float*>(what.rows.data + t * what.rows.stride); };
  if (what.site == Site::stream) {
    if (what.layer != 1 || stream_factor == 0) return;
    for (std::size_t t = 0; t < what.n_tok; ++t) {
      if ((what.first_position + static_cast<std::int64_t>(t)) % stream_every != stream_every / 2) continue;
      std::vector<float> magnitudes(row(t), row(t) + what.n_cols);
      for (float& x : magnitudes) x = std::fabs(x);
      const auto middle = magnitudes.begin() + static_cast<std::ptrdiff_t>(what.n_cols / 2);
      std::nth_element(magnitudes.begin(), middle, magnitudes.end());
      row(t)[stream_dimension] = static_cast<float>(stream_factor * static_cast<double>(*middle));
    }
    return;
  }
  const ChangeRow& change = what.site == Site::ffn_hidden && reads_hidden ? reads_hidden : reads;
  for (std::size_t t = 0; change && t < what.n_tok; ++t) change(row(t), what.n_cols);
}

Figures compare(ModelRun& original, ModelRun& model, const std::vector<std::vector<Token>>& chunks) {
  const std::size_t n_chunk = chunks.front().size();
  Reader base(original, n_chunk), other(model, n_chunk);
  const std::size_t n_vocab = base.n_vocab(), first = n_chunk / 2;
  Figures figures;
  std::vector<double> values;
  std::size_t n_same = 0;
  for (const std::vector<Token>& chunk : chunks) {
    const std::vector<float> p = base.read(chunk, first), q = other.read(chunk, first);
    for (const float logit : q) figures.finite = figures.finite && std::isfinite(logit);
    for (std::size_t t = first; t + 1 < chunk.size(); ++t) {
      const float *a = p.data() + (t - first) * n_vocab, *b = q.data() + (t - first) * n_vocab;
      const double a_sum = log_sum(a, n_vocab), b_sum = log_sum(b, n_vocab);
      double kl = 0;
      for (std::size_t i = 0; i < n_vocab; ++i) {
        const double log_a = static_cast<double>(a[i]) - a_sum, log_b = static_cast<double>(b[i]) - b_sum;
        kl += std::exp(log_a) * (log_a - log_b);
      }
      values.push_back(kl);
      figures.kl += kl;
      const auto next = static_cast<std::size_t>(chunk[t + 1]);
      figures.ln_ppl += (b_sum - static_cast<double>(b[next])) - (a_sum - static_cast<double>(a[next]));
      n_same += std::max_element(a, a + n_vocab) - a == std::max_element(b, b + n_vocab) - b;
    }
  }
  figures.n = values.size();
  const auto n = static_cast<double>(figures.n);
  figures.kl /= n;
  figures.ln_ppl /= n;
  figures.same_top = static_cast<double>(n_same) / n;
  figures.same_top_error = std::sqrt(figures.same_top * (1 - figures.same_top) / n);
  std::sort(values.begin(), values.end());
  figures.kl_99 = values[values.size() * 99 / 100];
  figures.kl_max = values.back();
  return figures;
}

std::vector<std::vector<Token>> chunks_of(const std::string& model_path, const std::string& text,
                                          std::size_t n_chunk, std::size_t n_chunks) {
  const auto model = require(Model::open(model_path, {}));
  std::vector<Token> tokens;
  if (!model->tokenizer()->encode(text, RUNNEL_ADD_BOS | RUNNEL_PARSE_SPECIAL, tokens))
    throw std::runtime_error("the text cannot be tokenized");
  std::vector<std::vector<Token>> chunks;
  for (std::size_t begin = 0; begin + n_chunk <= tokens.size() && chunks.size() < n_chunks;
       begin += n_chunk) {
    const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    chunks.emplace_back(at, at + static_cast<std::ptrdiff_t>(n_chunk));
    if (model->tokenizer()->adds_bos()) chunks.back()[0] = tokens[0];
  }
  if (chunks.empty()) throw std::runtime_error("the text is shorter than a chunk");
  return chunks;
}

void write_rounded(const std::string& in, const std::string& out, const ChangeRow& change,
                   const ChangeRow& change_down) {
  ModelWeights weights = ModelWeights::read(in);
  for (auto& [name, tensor] : weights.tensors) {
    if (!is_matrix(tensor) || contains(name, "ffn_gate_inp")) continue;
    for (std::size_t r = 0; r < tensor.n_rows(); ++r)
      (contains(name, "ffn_down") ? change_down : change)(tensor.row(r), tensor.n_cols());
  }
  weights.write(out, in);
}

void write_with_outliers(const std::string& in, const std::string& out, float s, std::size_t n) {
  ModelWeights weights = ModelWeights::read(in);
  const auto scale_column = [&](const std::string& name, std::size_t c, float factor) {
    WeightTensor& tensor = *weights.find(name + ".weight");
    for (std::size_t r = 0; r < tensor.n_rows(); ++r) tensor.row(r)[c] *= factor;
  };
  for (std::size_t layer = 0;; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    if (!weights.find(prefix + "attn_norm.weight")) break;
    for (std::size_t i = 0; i < n; ++i) {
      // Spread over the channels, others in each layer.
      const std::size_t n_embd = weights.find(prefix + "attn_norm.weight")->values.size();
      const std::size_t a = (7 + 13 * layer + 29 * i) % n_embd, b = (3 + 17 * layer + 23 * i) % n_embd;
      weights.find(prefix + "attn_norm.weight")->values[a] *= s;
      for (const char* reader : {"attn_q", "attn_k", "attn_v"}) scale_column(prefix + reader, a, 1 / s);
      weights.find(prefix + "ffn_norm.weight")->values[b] *= s;
      for (const char* reader : {"ffn_gate", "ffn_up"}) scale_column(prefix + reader, b, 1 / s);
      WeightTensor& up = *weights.find(prefix + "ffn_up.weight");
      const std::size_t unit = (5 + 31 * layer + 41 * i) % up.n_rows();
      for (std::size_t c = 0; c < up.n_cols(); ++c) up.row(unit)[c] *= s;
      scale_column(prefix + "ffn_down", unit, 1 / s);
    }
  }
  weights.write(out, in);
}

void pack(const std::string& in, const std::string& out, const std::string& calibration) {
  require(quantize(in, out, {"i8", calibration, {}}, {}));
}

}  // namespace runnel::test
