#include "lib/quantize/moments.h"

#include <algorithm>

#include "lib/quantize/pack_plan.h"

namespace runnel {
namespace {

constexpr std::size_t min_tokens = 128;
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

SecondMoments nothing_yet(std::size_t n_cols) {
  return {n_cols, 0, std::vector<float>(SecondMoments::n_sums(n_cols))};
}

// Among the moments of a layer, or of the output.
std::size_t place_of(Site site, std::size_t expert) {
  switch (site) {
    case Site::attn_in:
    case Site::output_in:
      return 0;
    case Site::attn_out:
      return 1;
    case Site::ffn_in:
      return 2;
    case Site::ffn_hidden:  // one an expert, or one
      return 3 + expert;
    case Site::stream:
      break;
  }
  return nowhere;
}

}  // namespace

Moments::Moments(const Model& model, const simd::Kernels& kernels, std::size_t begin, std::size_t end)
    : file_(model.file()), kernels_(kernels), begin_(begin), layers_(end - begin) {
  const Shape& shape = model.shape();
  for (std::size_t i = begin; i < end; ++i) {
    std::vector<SecondMoments>& layer = layers_[i - begin];
    layer.push_back(nothing_yet(shape.n_embd));
    if (i == shape.n_layer) continue;
    layer.push_back(nothing_yet(shape.n_embd_attn()));
    layer.push_back(nothing_yet(shape.n_embd));
    layer.resize(layer.size() + std::max<std::size_t>(shape.n_expert, 1), nothing_yet(shape.n_ff));
  }
  layer_tensors_.resize(shape.n_layer);
  for (const GgufTensor& tensor : file_.tensors())
    if (const std::size_t layer = layer_of(tensor.name); layer < shape.n_layer)
      layer_tensors_[layer].push_back(&tensor);
}

std::size_t Moments::layer_bytes(const Shape& shape, std::size_t layer) {
  if (layer == shape.n_layer) return sizeof(float) * SecondMoments::n_sums(shape.n_embd);
  const std::size_t n_ffn = std::max<std::size_t>(shape.n_expert, 1);
  return sizeof(float) *
         (2 * SecondMoments::n_sums(shape.n_embd) + SecondMoments::n_sums(shape.n_embd_attn()) +
          n_ffn * SecondMoments::n_sums(shape.n_ff));
}

bool Moments::has(std::size_t layer, std::size_t place) const {
  return layer >= begin_ && layer - begin_ < layers_.size() && place < layers_[layer - begin_].size();
}

const SecondMoments* Moments::find(std::size_t layer, Site site, std::size_t expert) const {
  const std::size_t place = place_of(site, expert);
  if (!has(layer, place)) return nullptr;
  const SecondMoments& moments = layers_[layer - begin_][place];
  return moments.n_tokens >= min_tokens ? &moments : nullptr;
}

void Moments::see(const Observation& what) noexcept {
  // The layer before has been read for this batch. Its pages would add up to the whole file.
  if (what.site == Site::stream && what.layer > 0)
    for (const GgufTensor* tensor : layer_tensors_[what.layer - 1])
      file_.drop_pages({tensor->data, tensor->n_bytes});
  const std::size_t place = place_of(what.site, what.expert);
  if (!has(what.layer, place)) return;
  SecondMoments& moments = layers_[what.layer - begin_][place];
  if (moments.n_cols != what.n_cols) return;
  moments.n_tokens += what.n_tok;
  // Group by group, for its sums (64 kB) to stay in the cache.
  for (std::size_t begin = 0; begin < what.n_cols; begin += feedback_group) {
    const std::size_t n = std::min(feedback_group, what.n_cols - begin);
    float* sums = moments.sums.data() + begin * feedback_group;
    for (std::size_t t = 0; t < what.n_tok; ++t) {
      const float* x = what.rows.data + t * what.rows.stride + begin;
      for (std::size_t i = 0; i < n; ++i)
        kernels_.add_scaled(sums + i * feedback_group + i, x + i, x[i], n - i);
    }
  }
}

}  // namespace runnel
