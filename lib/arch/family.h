// What sets one family of decoders apart from another, as data. To add a family: one file lib/arch/<name>.cpp
// with a constexpr description, and its name in RUNNEL_FAMILIES. The forward pass asks for properties, never
// for names.
#pragma once
#include <string_view>

namespace runnel {

enum class Norm { rms, layer };
enum class Positions { rope_adjacent, rope_halves, learned, alibi };
enum class Activation { silu, gelu };
enum class Ffn {
  gated,         // down(act(gate(x)) * up(x))
  gated_in_one,  // the same with gate and up as the two halves of one matrix, stored as "up"
  plain          // down(act(up(x))), act: gelu, the only one forward.cpp has for it
};
enum class WindowPattern { none, all_layers, even_layers };  // which layers have a native sliding window

struct Family {
  const char* name;  // general.architecture
  Norm norm = Norm::rms;
  Positions positions = Positions::rope_adjacent;
  Activation activation = Activation::silu;
  Ffn ffn = Ffn::gated;
  WindowPattern window = WindowPattern::none;
  int default_window = 0;  // where the file does not say
  // What each model of the family has; a file without it is damaged, and others may not have it.
  bool embedding_norm = false;  // after the embedding
  bool head_norms = false;      // of each head's query and key
  bool post_norms = false;      // after attention and after the feed-forward network, too
  bool biases = false;          // of all matrices of a layer (other families may have some)
  bool divides_logits = false;  // by logit_scale

  bool parallel_ffn = false;     // x + attention(norm(x)) + ffn(norm(x)) instead of one after the other
  bool scale_embedding = false;  // by sqrt(n_embd)
  // Models of so many layers scale attention by 1 / sqrt(n_embd / n_head), others by 1 / sqrt(head_dim),
  // where the file does not say.
  std::size_t n_layer_scaled_by_width = 0;
  bool scaled_ffn = false;  // .scale tensors apply to the feed-forward matrices, as they do to attention's
  // Of attention scores and of logits, where the file does not say; 0: the family has none, whatever the file
  // says (llama.cpp's llama_model_save_to_file() gives every family those of Gemma 2).
  double default_attn_soft_cap = 0;
  double default_logit_soft_cap = 0;

  bool rotates() const {
    return positions == Positions::rope_adjacent || positions == Positions::rope_halves;
  }
};

#define RUNNEL_FAMILIES(X) X(bloom) X(falcon) X(gemma2) X(gpt2) X(granite) X(llama) X(phi3) X(qwen2) X(qwen3)

namespace families {
#define X(name) extern const Family name;
RUNNEL_FAMILIES(X)
#undef X
}  // namespace families

const Family* find_family(std::string_view name);  // null when unknown
const char* family_names();                        // "bloom, falcon, ..." for messages

}  // namespace runnel
