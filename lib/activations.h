// What the forward pass computes with: the activations of a batch, allocated once for a session.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/aligned.h"
#include "lib/kv_cache.h"
#include "lib/linear/activation_buffer.h"
#include "lib/linear/linear.h"
#include "lib/model.h"
#include "simd/kernels.h"

namespace runnel {

// Rows of floats, one a token.
struct Buffer {
  Buffer(std::size_t n_rows, std::size_t width) : data(n_rows * width), n_cols(width) {}
  float* row(std::size_t t) { return data.data() + t * n_cols; }
  operator Rows() { return {data.data(), n_cols}; }             // NOLINT(google-explicit-constructor)
  operator ConstRows() const { return {data.data(), n_cols}; }  // NOLINT(google-explicit-constructor)
  AlignedVector<float> data;
  std::size_t n_cols;
};

// The same rows as the products read them that do not take floats. Each has room for as many tokens as a
// product of up to max_tok reads.
struct Rounded {
  Rounded(const Model& model, const simd::Kernels& kernels, std::size_t max_tok, std::size_t max_cols);
  static std::size_t n_bytes(const Model& model, const simd::Kernels& kernels, std::size_t max_tok,
                             std::size_t max_cols);
  Int8Buffer int8;
  Bf16Buffer bf16;
  Int16Buffer int16;
};

// What is done to whole tokens between products.
struct ResidualStream {
  ResidualStream(const Model& model, const simd::Kernels& kernels, std::size_t max_tok);
  static std::size_t n_bytes(const Model& model, const simd::Kernels& kernels, std::size_t max_tok);
  Buffer x;        // the residual stream [max_tok, n_embd]
  Buffer h;        // its normalised form
  Buffer h2;       // a parallel layer's second norm
  Rounded in;      // h or h2, as a block's first products read it
  Rounded hidden;  // what is in the middle of a block, as its last product reads it
};

struct Activations {
  Activations(const Model& model, const simd::Kernels& kernels, const CacheSize& size, std::size_t n_pairs,
              std::size_t n_threads);
  // What that takes at most: as many pairs are rotated as a head has.
  static std::size_t n_bytes(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                             std::size_t n_threads);

  ResidualStream shared;            // of a batch
  std::vector<ResidualStream> own;  // of one token, one a thread
  // What a block adds to the stream [batch, n_embd]: its last product writes it where its first ones, which
  // are done by then, read.
  Buffer& block_out() noexcept { return shared.h; }

  Buffer q, q_prefix;            // [batch, n_head * head_dim] rotated to meet the window, and the prefix
  Buffer k, v;                   // [batch, n_head_kv * head_dim], v: of head_dim_v
  Buffer attended;               // [batch, n_head * head_dim_v]
  Buffer angles, prefix_angles;  // [batch, 2 * n_pairs] cosines, then sines
  Buffer gate, up;               // [batch, n_ff]

  // Of a mixture of experts.
  Buffer router;       // [batch, n_expert]
  Buffer expert;       // [batch, n_embd] one expert's tokens
  Buffer experts_out;  // [batch, n_embd]

  AlignedVector<float> last_hidden;  // [n_embd] what the output matrix reads of the last token
  AlignedVector<float> logits;       // [some, n_vocab]
};

}  // namespace runnel
