#include "lib/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace runnel {
namespace {

std::size_t element_bytes(CacheType type) {
  return type == CacheType::f32 ? sizeof(float) : sizeof(simd::F16);
}

// Cache positions that a token of this layer sees.
std::int64_t native_window(const Layer& layer) {
  return layer.window > 0 ? static_cast<std::int64_t>(layer.window) : INT64_MAX;
}

// A batch is stored whole before its first token is looked at, so the ring has room for it beside that
// token's window.
std::int64_t ring_slots(std::int64_t window, const CacheSize& size) { return window + size.batch - 1; }

// Rows start on cache lines of their own where the head is large enough for that to matter.
std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

KvCache::KvCache(const Model& model, const CacheSize& size, CacheType type)
    : size_(size),
      type_(type),
      n_head_kv_(model.shape().n_head_kv),
      key_bytes_(model.shape().head_dim * element_bytes(type)),
      value_bytes_(model.shape().head_dim_v * element_bytes(type)) {
  std::size_t offset = 0;
  for (const Layer& layer : model.weights().layers) {
    LayerSlots slots{};  // zero: nothing was overwritten yet
    slots.native = native_window(layer);
    slots.ring = ring_slots(std::min(slots.native, size.window), size);
    const auto n_slots = static_cast<std::size_t>(size.n_prefix + slots.ring);
    slots.key_offset = offset;
    slots.value_offset = offset + aligned(n_head_kv_ * n_slots * key_bytes_);
    offset = slots.value_offset + aligned(n_head_kv_ * n_slots * value_bytes_);
    layers_.push_back(slots);
  }
  n_bytes_ = static_cast<std::int64_t>(offset);
  data_ = std::make_unique_for_overwrite<std::byte[]>(offset);
}

std::int64_t KvCache::n_bytes(const Model& model, const CacheSize& size, CacheType type) {
  const Shape& shape = model.shape();
  const double slot_bytes =
      static_cast<double>((shape.head_dim + shape.head_dim_v) * shape.n_head_kv * element_bytes(type));
  double total = 0;  // in double, since the settings allow products beyond 2^63
  for (const Layer& layer : model.weights().layers)
    total += slot_bytes * static_cast<double>(size.n_prefix +
                                              ring_slots(std::min(native_window(layer), size.window), size)) +
             128;
  return total < 9e18 ? static_cast<std::int64_t>(total) : INT64_MAX;
}

void KvCache::clear() {
  position_ = oldest_ = 0;
  for (LayerSlots& layer : layers_) layer.oldest = 0;
}

bool KvCache::rewind(std::int64_t position) {
  if (position < 0 || position > position_) return false;
  if (position <= size_.n_prefix) {
    clear();
    position_ = position;
    return true;
  }
  const std::int64_t oldest = std::max(oldest_, position_ - ring_slots(size_.window, size_));
  if (position <= oldest) return false;
  for (LayerSlots& layer : layers_) layer.oldest = std::max(layer.oldest, position_ - layer.ring);
  oldest_ = oldest;
  position_ = position;
  return true;
}

std::int64_t KvCache::n_seen() const { return position_ == 0 ? 0 : cache_position(position_ - 1) + 1; }

std::int64_t KvCache::window_begin(std::int64_t position) const {
  return std::max({size_.n_prefix, position - size_.window + 1, oldest_});
}

std::int64_t KvCache::cache_position(std::int64_t position) const {
  return position < size_.n_prefix ? position : size_.n_prefix + position - window_begin(position);
}

Visible KvCache::visible(std::size_t layer, std::int64_t position) const {
  // A layer's native window is counted in cache positions, like everything the model sees; inside the window
  // that is the same as in positions.
  const LayerSlots& slots = layers_[layer];
  const std::int64_t at = cache_position(position);
  Visible v{};
  v.prefix_end = std::min(size_.n_prefix, at + 1);
  v.prefix_begin = std::clamp<std::int64_t>(at - slots.native + 1, 0, v.prefix_end);
  v.window_end = std::max(position + 1, size_.n_prefix);
  v.window_begin = std::max({window_begin(position), slots.oldest, position - slots.native + 1});
  v.window_begin = std::min(v.window_begin, v.window_end);
  return v;
}

std::size_t KvCache::slot(const LayerSlots& layer, std::int64_t position) const {
  return static_cast<std::size_t>(
      position < size_.n_prefix ? position : size_.n_prefix + (position - size_.n_prefix) % layer.ring);
}

void KvCache::store(const simd::Kernels& kernels, std::size_t layer, std::size_t head, std::int64_t position,
                    const float* k, const float* v) noexcept {
  const LayerSlots& slots = layers_[layer];
  const auto n_slots = static_cast<std::size_t>(size_.n_prefix + slots.ring);
  const std::size_t row = head * n_slots + slot(slots, position);
  std::byte* key = data_.get() + slots.key_offset + row * key_bytes_;
  std::byte* value = data_.get() + slots.value_offset + row * value_bytes_;
  if (type_ == CacheType::f32) {
    std::memcpy(key, k, key_bytes_);
    std::memcpy(value, v, value_bytes_);
  } else {
    kernels.f32_to_f16(reinterpret_cast<simd::F16*>(key), k, key_bytes_ / sizeof(simd::F16));
    kernels.f32_to_f16(reinterpret_cast<simd::F16*>(value), v, value_bytes_ / sizeof(simd::F16));
  }
}

KeyRun KvCache::run(const LayerSlots& layer, std::size_t head, std::size_t slot, std::size_t n) const {
  const std::size_t row = head * static_cast<std::size_t>(size_.n_prefix + layer.ring) + slot;
  return {data_.get() + layer.key_offset + row * key_bytes_,
          data_.get() + layer.value_offset + row * value_bytes_, n};
}

KeyRun KvCache::prefix_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const {
  return run(layers_[layer], head, static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

KeyRun KvCache::window_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const {
  const LayerSlots& slots = layers_[layer];
  const std::int64_t to_wrap = slots.ring - (begin - size_.n_prefix) % slots.ring;
  return run(slots, head, slot(slots, begin), static_cast<std::size_t>(std::min(end - begin, to_wrap)));
}

}  // namespace runnel
