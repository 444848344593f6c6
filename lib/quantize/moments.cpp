#include "lib/quantize/moments.h"

#include <algorithm>
#include <string>

namespace runnel {
namespace {

constexpr std::size_t min_tokens = 128;

SecondMoments nothing_yet(std::size_t n_cols) {
  return {n_cols, 0, std::vector<float>(SecondMoments::n_sums(n_cols))};
}

}  // namespace

Moments::Moments(const Model& model, const simd::Kernels& kernels, std::size_t begin, std::size_t end)
    : file_(model.file()), kernels_(kernels), begin_(begin), layers_(end - begin) {
  const Shape& shape = model.shape();
  for (std::size_t i = begin; i < end; ++i) {
    LayerMoments& layer = layers_[i - begin];
    if (i == shape.n_layer) {
      layer.output_in = nothing_yet(shape.n_embd);
      continue;
    }
    layer.attn_in = nothing_yet(shape.n_embd);
    layer.attn_out = nothing_yet(shape.n_embd_attn());
    layer.ffn_in = nothing_yet(shape.n_embd);
    layer.ffn_hidden.assign(std::max<std::size_t>(shape.n_expert, 1), nothing_yet(shape.n_ff));
  }
  layer_tensors_.resize(shape.n_layer);
  for (std::size_t i = 0; i < shape.n_layer; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    for (const GgufTensor& tensor : file_.tensors())
      if (tensor.name.substr(0, prefix.size()) == prefix) layer_tensors_[i].push_back(&tensor);
  }
}

std::size_t Moments::layer_bytes(const Shape& shape, std::size_t layer) {
  if (layer == shape.n_layer) return sizeof(float) * SecondMoments::n_sums(shape.n_embd);
  const std::size_t n_ffn = std::max<std::size_t>(shape.n_expert, 1);
  return sizeof(float) *
         (2 * SecondMoments::n_sums(shape.n_embd) + SecondMoments::n_sums(shape.n_embd_attn()) +
          n_ffn * SecondMoments::n_sums(shape.n_ff));
}

SecondMoments* Moments::LayerMoments::at(Site site, std::size_t expert) {
  switch (site) {
    case Site::attn_in:
      return &attn_in;
    case Site::attn_out:
      return &attn_out;
    case Site::ffn_in:
      return &ffn_in;
    case Site::ffn_hidden:
      return expert < ffn_hidden.size() ? &ffn_hidden[expert] : nullptr;
    case Site::output_in:
      return &output_in;
    case Site::stream:
      return nullptr;
  }
  return nullptr;
}

const SecondMoments* Moments::find(std::size_t layer, Site site, std::size_t expert) const {
  if (layer < begin_ || layer - begin_ >= layers_.size()) return nullptr;
  const SecondMoments* moments = const_cast<LayerMoments&>(layers_[layer - begin_]).at(site, expert);
  return moments && moments->n_tokens >= min_tokens ? moments : nullptr;
}

void Moments::see(const Observation& what) noexcept {
  // The layer before has been read for this batch. Its pages would add up to the whole file.
  if (what.site == Site::stream && what.layer > 0)
    for (const GgufTensor* tensor : layer_tensors_[what.layer - 1])
      file_.drop_pages({tensor->data, tensor->n_bytes});
  if (what.layer < begin_ || what.layer - begin_ >= layers_.size()) return;
  SecondMoments* moments = layers_[what.layer - begin_].at(what.site, what.expert);
  if (!moments || moments->n_cols != what.n_cols) return;
  moments->n_tokens += what.n_tok;
  // Group by group, for its sums (64 kB) to stay in the cache.
  for (std::size_t begin = 0; begin < what.n_cols; begin += feedback_group) {
    const std::size_t n = std::min(feedback_group, what.n_cols - begin);
    float* sums = moments->sums.data() + begin * feedback_group;
    for (std::size_t t = 0; t < what.n_tok; ++t) {
      const float* x = what.rows.data + t * what.rows.stride + begin;
      for (std::size_t i = 0; i < n; ++i)
        kernels_.add_scaled(sums + i * feedback_group + i, x + i, x[i], n - i);
    }
  }
}

}  // namespace runnel
