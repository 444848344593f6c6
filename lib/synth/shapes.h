// Shapes of published models, for weights made up at random: what speed and memory depend on, without a
// download.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runnel {

struct SynthShape {
  const char* name;
  const char* architecture;  // of the file: a family of lib/arch
  std::uint32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_ctx_train;
  float norm_eps = 1e-5f;
  float rope_base = 10000.0f;
  float rope_factor = 0.0f;                           // of Llama 3's scaled rotation; 0: none
  bool tied = false;                                  // the embedding is the output matrix too
  bool qkv_bias = false;                              // Qwen 2
  bool head_norms = false;                            // of queries and keys: Qwen 3
  bool post_norms = false;                            // after attention and feed-forward too: Gemma 2
  bool fused = false;                                 // q, k, v in one matrix, gate and up in another: Phi 3
  std::uint32_t sliding_window = 0;                   // tokens; 0: none
  float attn_soft_cap = 0.0f, logit_soft_cap = 0.0f;  // 0: none
};

std::size_t n_synth_shapes();
const SynthShape& synth_shape(std::size_t i);
const SynthShape* find_synth_shape(std::string_view name);  // null when unknown

}  // namespace runnel
