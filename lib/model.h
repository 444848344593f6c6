// A model: its description from the file, checked, and views of its weights in the mapped memory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/arch/family.h"
#include "lib/io/gguf.h"
#include "lib/linear/linear.h"
#include "lib/result.h"
#include "lib/rope.h"
#include "lib/settings.h"
#include "lib/token/tokenizer.h"

namespace runnel {

// Sizes and constants of the architecture ("hyperparameters").
struct Shape {
  std::size_t n_vocab = 0, n_embd = 0, n_layer = 0, n_head = 0, n_head_kv = 0;
  std::size_t head_dim = 0;    // of queries and keys
  std::size_t head_dim_v = 0;  // of values
  std::size_t n_ff = 0;        // of one expert where there are experts
  std::size_t n_expert = 0, n_expert_used = 0;
  std::size_t n_ctx_train = 0;
  std::size_t native_window = 0;  // tokens; 0: none
  float norm_eps = 0;
  float attention_scale = 0;                    // of query . key
  float attn_soft_cap = 0, logit_soft_cap = 0;  // 0: none
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float alibi_max_bias = 0;

  std::size_t n_embd_q() const { return n_head * head_dim; }
  std::size_t n_embd_k() const { return n_head_kv * head_dim; }
  std::size_t n_embd_v() const { return n_head_kv * head_dim_v; }
  std::size_t n_embd_attn() const { return n_head * head_dim_v; }
};

struct NormWeights {
  const float* gain = nullptr;  // [n]; null: there is no such norm
  const float* bias = nullptr;  // [n] or null
  explicit operator bool() const { return gain != nullptr; }
};

struct FfnWeights {
  Linear gate, up, down;  // no gate: plain
};

struct Layer : FfnWeights {  // the feed-forward network, or a router [n_expert, n_embd] and experts
  NormWeights attn_norm;
  Linear q, k, v, o;
  NormWeights q_norm, k_norm;  // [head_dim], of each head
  NormWeights attn_post_norm;  // of what attention adds to the stream
  NormWeights ffn_norm, ffn_post_norm;
  Linear router;
  std::vector<FfnWeights> experts;
  std::size_t window = 0;  // native sliding window, tokens; 0: none
};

struct Weights {
  Linear embedding;           // [n_vocab, n_embd]
  Linear position_embedding;  // [n_ctx_train, n_embd], learned positions only
  NormWeights embedding_norm;
  std::vector<Layer> layers;
  NormWeights output_norm;
  Linear output;  // [n_vocab, n_embd]
};

class Model {
 public:
  static Result<std::shared_ptr<const Model>> open(const std::string& path, const Settings& settings);
  // `name` stands for the file's in messages; source_path: the file that the bytes were made from, if any.
  static Result<std::shared_ptr<const Model>> from_memory(std::span<const std::byte> bytes,
                                                          const Settings& settings,
                                                          const std::string& name = "(memory)",
                                                          const std::string& source_path = "");

  const GgufFile& file() const { return file_; }
  const std::string& source_path() const { return source_path_; }  // empty: it comes from none
  const std::string& architecture() const { return architecture_; }
  bool has_weights() const { return family_ != nullptr; }
  Result<void> check_weights() const;                // that it has some
  const Family& family() const { return *family_; }  // these three only with weights
  const Shape& shape() const { return shape_; }
  const Weights& weights() const { return weights_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null in files without one
  std::size_t n_vocab() const;                                     // of the weights, else of the tokenizer
  Result<void> check_tokens(std::span<const Token> tokens) const;  // that all are ids below n_vocab()
  bool is_packed() const { return is_packed_; }                    // whether any matrix is int8 (quant/i8.h)
  const WeightKinds& weight_kinds() const { return weight_kinds_; }
  std::uint64_t n_parameters() const { return n_parameters_; }  // numbers in all tensors, without filling
  bool can_stream() const { return family_ && family_->positions != Positions::learned; }

  // Rotation for sessions that see n_ctx tokens: LongRoPE has two sets of factors.
  Result<Rope> rope(std::size_t n_ctx) const;
  // Tokens that a session may see where nobody says how many: n_ctx_train, but with LongRoPE those of its
  // first training, for the factors for more serve texts that are no longer worse.
  std::size_t n_ctx_default() const { return n_ctx_default_; }

  // Names and values as strings of their own, for the C surface; i below n_meta() or the number of tensors.
  std::size_t n_meta() const { return meta_.size(); }
  const std::string& meta_key(std::size_t i) const { return meta_[i].first; }
  const std::string& meta_text(std::size_t i) const { return meta_[i].second; }
  const std::string& tensor_name(std::size_t i) const { return tensor_names_[i]; }
  const std::string& tokenizer_kind() const { return tokenizer_kind_; }  // "" when there is none

 private:
  friend class ModelLoader;
  Model(GgufFile file, std::string source_path)
      : file_(std::move(file)), source_path_(std::move(source_path)) {}
  static Result<std::shared_ptr<const Model>> load(GgufFile file, const std::string& source_path,
                                                   const Settings& settings);

  GgufFile file_;
  std::string source_path_;
  std::string architecture_;
  const Family* family_ = nullptr;
  Shape shape_;
  std::size_t n_ctx_default_ = 0;
  Weights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  bool is_packed_ = false;
  WeightKinds weight_kinds_;
  std::uint64_t n_parameters_ = 0;
  std::vector<std::unique_ptr<float[]>> converted_;  // vectors that the file has in another type than f32
  std::vector<std::pair<std::string, std::string>> meta_;
  std::vector<std::string> tensor_names_;
  std::string tokenizer_kind_;
};

}  // namespace runnel
