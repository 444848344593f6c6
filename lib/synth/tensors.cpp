#include "lib/synth/tensors.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace runnel {
namespace {

// Llama 3.1's divisors of the rotation's frequencies, [head_dim / 2] (Dubey et al. 2024 and its published
// configuration): wavelengths beyond the original context are stretched by the factor, those below a quarter
// of it are kept, and between the two the frequencies are blended.
std::vector<float> llama3_factors(const SynthShape& shape) {
  constexpr double original_context = 8192.0, low_factor = 1.0, high_factor = 4.0;
  const double factor = static_cast<double>(shape.rope_factor);
  std::vector<float> factors;
  for (std::uint32_t i = 0; i < shape.head_dim; i += 2) {
    const double frequency =
        std::pow(static_cast<double>(shape.rope_base), -static_cast<double>(i) / shape.head_dim);
    const double rotations = original_context * frequency / (2.0 * std::numbers::pi);
    const double kept = (rotations - low_factor) / (high_factor - low_factor);
    const double divisor = kept <= 0.0 ? factor : kept >= 1.0 ? 1.0 : 1.0 / ((1.0 - kept) / factor + kept);
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

class TensorList {
 public:
  // Variance 1 / n_in, so that products keep the size of what they are applied to.
  void matrix(std::string name, std::uint32_t n_in, std::uint32_t n_out) {
    const float spread = std::sqrt(3.0f / static_cast<float>(n_in));
    tensors.push_back({std::move(name) + ".weight", {n_in, n_out}, 0.0f, spread, {}});
  }
  void norm(std::string name, std::uint32_t n) {
    tensors.push_back({std::move(name) + ".weight", {n}, 1.0f, 0.1f, {}});
  }
  void bias(std::string name, std::uint32_t n) {
    tensors.push_back({std::move(name) + ".bias", {n}, 0.0f, 0.1f, {}});
  }

  std::vector<SynthTensor> tensors;
};

void add_attention(TensorList& list, const SynthShape& s, const std::string& prefix) {
  const std::uint32_t n_q = s.n_head * s.head_dim, n_kv = s.n_head_kv * s.head_dim;
  list.norm(prefix + "attn_norm", s.n_embd);
  if (s.fused) {
    list.matrix(prefix + "attn_qkv", s.n_embd, n_q + 2 * n_kv);
  } else {
    for (const auto& [name, n] :
         {std::pair{"attn_q", n_q}, std::pair{"attn_k", n_kv}, std::pair{"attn_v", n_kv}}) {
      list.matrix(prefix + name, s.n_embd, n);
      if (s.qkv_bias) list.bias(prefix + name, n);
    }
  }
  if (s.head_norms) {
    list.norm(prefix + "attn_q_norm", s.head_dim);
    list.norm(prefix + "attn_k_norm", s.head_dim);
  }
  list.matrix(prefix + "attn_output", n_q, s.n_embd);
  if (s.post_norms) list.norm(prefix + "post_attention_norm", s.n_embd);
}

void add_ffn(TensorList& list, const SynthShape& s, const std::string& prefix) {
  list.norm(prefix + "ffn_norm", s.n_embd);
  if (!s.fused) list.matrix(prefix + "ffn_gate", s.n_embd, s.n_ff);
  list.matrix(prefix + "ffn_up", s.n_embd, s.fused ? 2 * s.n_ff : s.n_ff);
  list.matrix(prefix + "ffn_down", s.n_ff, s.n_embd);
  if (s.post_norms) list.norm(prefix + "post_ffw_norm", s.n_embd);
}

}  // namespace

std::uint64_t SynthTensor::n_elements() const {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : dims) n *= dim;
  return n;
}

std::vector<SynthTensor> synth_tensors(const SynthShape& shape) {
  TensorList list;
  list.matrix("token_embd", shape.n_embd, shape.n_vocab);
  list.norm("output_norm", shape.n_embd);
  if (!shape.tied) list.matrix("output", shape.n_embd, shape.n_vocab);
  if (shape.rope_factor != 0.0f) {
    list.tensors.push_back({"rope_freqs.weight", {shape.head_dim / 2}, 0.0f, 0.0f, llama3_factors(shape)});
  }
  for (std::uint32_t i = 0; i < shape.n_layer; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    add_attention(list, shape, prefix);
    add_ffn(list, shape, prefix);
  }
  return std::move(list.tensors);
}

}  // namespace runnel
