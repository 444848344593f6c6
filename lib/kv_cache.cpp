#include "lib/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace runnel {
namespace {

std::size_t bytes_of(CacheType type) {
  switch (type) {
    case CacheType::f32:
      return sizeof(float);
    case CacheType::f16:
      return sizeof(simd::F16);
    case CacheType::i8:
      return sizeof(std::int8_t);
  }
  return 0;
}

// The prefix is small and holds the sinks, whose keys are unlike all others: it is never int8. A head of few
// numbers has too little to share a scale among (measured: +0.4 % perplexity at 8 numbers, +0.01 % at 64);
// its keys matter most.
constexpr std::size_t min_int8_key_dim = 32;
CacheType prefix_type(CacheType type) { return type == CacheType::i8 ? CacheType::f16 : type; }
CacheType ring_key_type(CacheType type, std::size_t head_dim) {
  return head_dim < min_int8_key_dim ? prefix_type(type) : type;
}

// Cache positions that a token of this layer sees.
std::int64_t native_window(const Layer& layer) {
  return layer.window > 0 ? static_cast<std::int64_t>(layer.window) : INT64_MAX;
}

// Slots in whole blocks of keys.
std::size_t padded(std::size_t n_slots) { return filled_up(n_slots, simd::block_keys); }

// A model that computes in bf16 may have values beyond what f16 holds, which are infinite in it: they become
// its largest. What is not finite in x stays so, for weights are damaged then.
void keep_finite(simd::F16* halves, const float* x, std::size_t n) {
  constexpr simd::F16 magnitude = 0x7fff, infinity = 0x7c00;
  unsigned n_infinite = 0;
  for (std::size_t i = 0; i < n; ++i) n_infinite += (halves[i] & magnitude) == infinity ? 1 : 0;
  for (std::size_t i = 0; n_infinite > 0 && i < n; ++i)
    if ((halves[i] & magnitude) == infinity && std::isfinite(x[i])) --halves[i];  // the next one towards 0
}

template <class T>
void spread(T* to, std::size_t stride, const T* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i * stride] = from[i];
}

}  // namespace

std::size_t KvCache::Store::element_bytes() const { return bytes_of(type); }

std::size_t KvCache::Store::vector_bytes() const { return width * element_bytes(); }

std::size_t KvCache::Store::slot_bytes() const { return filled_up(width, layout.together) * element_bytes(); }

std::size_t KvCache::Store::saved_bytes() const {
  return vector_bytes() + (type == CacheType::i8 ? sizeof(float) : 0);
}

std::size_t KvCache::Store::row(std::size_t head, std::size_t slot) const {
  return head * padded(n_slots) + slot;
}

std::size_t KvCache::Store::first_byte(std::size_t head, std::size_t slot) const {
  const std::size_t in_block = slot % layout.block;
  return offset + (row(head, slot) - in_block) * slot_bytes() + in_block * layout.together * element_bytes();
}

CachedNumbers KvCache::Store::block_at(const std::byte* data, std::size_t head, std::size_t slot) const {
  const std::size_t first = slot - slot % layout.block;
  return {type, data + first_byte(head, first),
          reinterpret_cast<const float*>(data + scales_offset) + row(head, first)};
}

std::span<float> KvCache::Store::scales(std::byte* data, std::size_t head, std::size_t slot,
                                        std::size_t n) const {
  return {reinterpret_cast<float*>(data + scales_offset) + row(head, slot), n};
}

void KvCache::Store::put(const simd::Kernels& kernels, std::byte* data, std::size_t head, std::size_t slot,
                         const float* x) const {
  std::byte* to = data + first_byte(head, slot);
  switch (type) {
    case CacheType::f32:
      spread(reinterpret_cast<float*>(to), stride(), x, width);
      break;
    case CacheType::f16: {
      std::array<simd::F16, 64> part;
      for (std::size_t i = 0; i < width; i += part.size()) {
        const std::size_t n = std::min(part.size(), width - i);
        kernels.f32_to_f16(part.data(), x + i, n);
        keep_finite(part.data(), x + i, n);
        spread(reinterpret_cast<simd::F16*>(to) + i * stride(), stride(), part.data(), n);
      }
      break;
    }
    case CacheType::i8:
      scales(data, head, slot, 1)[0] =
          kernels.quantize_vector(reinterpret_cast<std::int8_t*>(to), layout.together, stride(), x, width);
      break;
  }
}

std::size_t KvCache::lay_out(const Model& model, const CacheSize& size, CacheType type,
                             std::vector<LayerSlots>* layers) {
  const Shape& shape = model.shape();
  std::size_t end = 0;
  const auto take = [&](std::size_t n_bytes) {
    const std::size_t begin = end;
    end += filled_up(n_bytes, cache_line);
    return begin;
  };
  const auto store = [&](CacheType store_type, std::int64_t slots, std::size_t width, Layout layout) {
    Store s{store_type, static_cast<std::size_t>(slots), width, layout, 0, 0};
    const std::size_t n = shape.n_head_kv * padded(s.n_slots);
    s.offset = take(n * s.slot_bytes());
    if (store_type == CacheType::i8) s.scales_offset = take(n * sizeof(float));
    return s;
  };
  const auto keys = [&](CacheType store_type, std::int64_t slots) {
    const std::size_t together = store_type == CacheType::i8 ? simd::dot_bytes : 1;
    return store(store_type, slots, shape.head_dim, {simd::block_keys, together});
  };
  const auto values = [&](CacheType store_type, std::int64_t slots) {
    const std::size_t block = store_type == CacheType::i8 ? simd::dot_bytes : 1;
    return store(store_type, slots, shape.head_dim_v, {block, 1});
  };
  for (const Layer& layer : model.weights().layers) {
    LayerSlots slots{};  // oldest zero: nothing was overwritten yet
    slots.native = native_window(layer);
    slots.ring = size.ring_slots(std::min(slots.native, size.window));
    slots.prefix_keys = keys(prefix_type(type), size.n_prefix);
    slots.prefix_values = values(prefix_type(type), size.n_prefix);
    slots.ring_keys = keys(ring_key_type(type, shape.head_dim), slots.ring);
    slots.ring_values = values(type, slots.ring);
    if (layers) layers->push_back(slots);
  }
  return end;
}

// Settings and files allow products of a few 10^24, beyond any memory and beyond 64 bits.
std::int64_t KvCache::n_bytes(const Model& model, const CacheSize& size, CacheType type) {
  const Shape& shape = model.shape();
  const double most =
      static_cast<double>(shape.n_layer) * static_cast<double>(shape.n_embd_k() + shape.n_embd_v()) *
      static_cast<double>(size.n_prefix + size.window + size.batch + 2 * std::int64_t{simd::block_keys}) *
      sizeof(float) * 2;
  return most < 9e18 ? static_cast<std::int64_t>(lay_out(model, size, type, nullptr)) : INT64_MAX;
}

KvCache::KvCache(const Model& model, const CacheSize& size, CacheType type)
    : size_(size), type_(type), model_(&model) {
  allocate(n_bytes(model, size, type));
  lay_out(model, size, type, &layers_);
}

void KvCache::allocate(std::int64_t n_bytes) {
  if (n_bytes == INT64_MAX) throw std::bad_alloc();
  data_ = aligned_bytes(static_cast<std::size_t>(n_bytes));
  n_bytes_ = n_bytes;
  huge_pages_ = HugePages(data_.get(), static_cast<std::size_t>(n_bytes));
}

// Pages of which nothing is written yet take no memory: until half of the window is in use, none is made
// huge. One for each token from then on has made them all when the window is full.
void KvCache::advance(std::int64_t n) {
  position_ += n;
  if (position_ - size_.n_prefix >= size_.window / 2) huge_pages_.make(n);
}

void KvCache::clear() {
  position_ = oldest_ = 0;
  for (LayerSlots& layer : layers_) layer.oldest = 0;
}

void KvCache::give_up(std::int64_t n) {
  advance(n);
  rewind(position_ - n);
}

void KvCache::restart(std::int64_t n_prefix) {
  if (n_prefix != size_.n_prefix) {
    CacheSize size = size_;
    size.window += size.n_prefix - n_prefix;
    size.n_prefix = n_prefix;
    std::vector<LayerSlots> layers;
    layers.reserve(layers_.size());
    lay_out(*model_, size, type_, &layers);
    const std::int64_t needed = n_bytes(*model_, size, type_);
    if (needed > n_bytes_) allocate(needed);
    layers_ = std::move(layers);
    size_ = size;
  }
  clear();
}

void KvCache::evict(std::int64_t position) { oldest_ = std::clamp(position, oldest_, position_); }

std::int64_t KvCache::oldest() const {
  return std::max({size_.n_prefix, oldest_, position_ - size_.ring_slots(size_.window)});
}

bool KvCache::rewind(std::int64_t position) {
  if (position < 0 || position > position_) return false;
  if (position <= size_.n_prefix) {
    clear();
    position_ = position;
    return true;
  }
  if (position < oldest()) return false;
  oldest_ = oldest();
  for (LayerSlots& layer : layers_) layer.oldest = std::min(oldest_in(layer), position);
  position_ = position;
  return true;
}

std::int64_t KvCache::oldest_in(const LayerSlots& layer) const {
  return std::max(layer.oldest, position_ - layer.ring);
}

bool KvCache::has_seen(std::int64_t position) const {
  const std::int64_t seen_from = std::max(window_begin(position), oldest());
  return std::all_of(layers_.begin(), layers_.end(), [&](const LayerSlots& layer) {
    return position <= size_.n_prefix || oldest_in(layer) <= std::max(seen_from, position - layer.native + 1);
  });
}

std::int64_t KvCache::n_free() const {
  const std::int64_t begin = position_ > 0 ? window_begin(position_ - 1) : size_.n_prefix;
  return begin + size_.window - position_;
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

std::size_t KvCache::n_slots(std::size_t layer, const Visible& all) const {
  const LayerSlots& here = layers_[layer];
  const std::int64_t first = ring_slot(here, all.window_begin);
  return static_cast<std::size_t>(std::min(first + all.window_end - all.window_begin, here.ring));
}

std::array<PositionRange, 2> KvCache::window_in(std::size_t layer, const Visible& all, Range slots) const {
  // Position of slot 0 in the round of the ring that the window begins in, and in the next.
  const std::int64_t older = all.window_begin - ring_slot(layers_[layer], all.window_begin);
  const std::int64_t newer = older + layers_[layer].ring;
  const auto in_slots = [&](std::int64_t slot_0, std::int64_t begin, std::int64_t end) {
    begin = std::max(begin, slot_0 + static_cast<std::int64_t>(slots.begin));
    end = std::min(end, slot_0 + static_cast<std::int64_t>(slots.end));
    return PositionRange{begin, std::max(begin, end)};
  };
  return {in_slots(newer, newer, all.window_end),
          in_slots(older, all.window_begin, std::min(newer, all.window_end))};
}

void KvCache::store(const simd::Kernels& kernels, std::size_t layer, std::size_t head, std::int64_t position,
                    const float* k, const float* v) noexcept {
  const LayerSlots& slots = layers_[layer];
  const bool is_prefix = position < size_.n_prefix;
  const auto slot = static_cast<std::size_t>(is_prefix ? position : ring_slot(slots, position));
  (is_prefix ? slots.prefix_keys : slots.ring_keys).put(kernels, data_.get(), head, slot, k);
  (is_prefix ? slots.prefix_values : slots.ring_values).put(kernels, data_.get(), head, slot, v);
}

namespace {

KeyRun run_at(std::size_t slot, std::size_t n, const CachedNumbers& keys, const CachedNumbers& values) {
  return {keys, values, slot % simd::block_keys, std::min(n, KeyRun::max - slot % KeyRun::max)};
}

}  // namespace

KeyRun KvCache::prefix_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const {
  const LayerSlots& slots = layers_[layer];
  const auto slot = static_cast<std::size_t>(begin);
  return run_at(slot, static_cast<std::size_t>(end - begin),
                slots.prefix_keys.block_at(data_.get(), head, slot),
                slots.prefix_values.block_at(data_.get(), head, slot));
}

KeyRun KvCache::window_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const {
  const LayerSlots& slots = layers_[layer];
  const auto slot = static_cast<std::size_t>(ring_slot(slots, begin));
  const auto n = std::min(static_cast<std::size_t>(end - begin), static_cast<std::size_t>(slots.ring) - slot);
  return run_at(slot, n, slots.ring_keys.block_at(data_.get(), head, slot),
                slots.ring_values.block_at(data_.get(), head, slot));
}

}  // namespace runnel
