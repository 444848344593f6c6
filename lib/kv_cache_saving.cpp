// What a cache holds as bytes, whatever ring it lies in: by layer (prefix keys, prefix values, window keys,
// window values) and KV head the vectors of the tokens in order of position, in int8 followed by their
// scales.
#include <algorithm>
#include <array>
#include <cstring>

#include "lib/kv_cache.h"

namespace runnel {
namespace {

struct SlotRun {
  std::size_t slot, n;
};

// Slots of n neighbouring positions in a ring: one run, or two around its end.
std::array<SlotRun, 2> slot_runs(std::size_t first, std::size_t n, std::size_t n_slots) {
  const std::size_t n_first = std::min(n, n_slots - first);
  return {{{first, n_first}, {0, n - n_first}}};
}

}  // namespace

std::array<KvCache::HeldStore, 4> KvCache::held_stores(const LayerSlots& layer, std::int64_t position,
                                                       std::int64_t begin) const {
  const std::int64_t n_pinned = std::min(position, size_.n_prefix);
  const std::int64_t n_window = std::max<std::int64_t>(0, position - begin);
  return {{{&layer.prefix_keys, 0, n_pinned},
           {&layer.prefix_values, 0, n_pinned},
           {&layer.ring_keys, begin - size_.n_prefix, n_window},
           {&layer.ring_values, begin - size_.n_prefix, n_window}}};
}

KvCache::Held KvCache::held() const {
  Held held{size_.n_prefix, position_, oldest(), {}};
  held.layers.reserve(layers_.size());
  const std::int64_t end = std::max(held.oldest, position_);
  for (const LayerSlots& layer : layers_)
    held.layers.push_back(std::min(end, std::max({held.oldest, layer.oldest, position_ - layer.ring})));
  return held;
}

bool KvCache::sees_whole_window(std::size_t layer) const { return layers_[layer].native >= size_.window; }

std::vector<std::span<const std::byte>> KvCache::held_parts() const {
  const std::size_t n_head = model_->shape().n_head_kv;
  const Held now = held();
  std::vector<std::span<const std::byte>> parts;
  const auto add = [&](const std::byte* start, std::size_t n_bytes) {
    if (n_bytes > 0) parts.emplace_back(start, n_bytes);
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const HeldStore& part : held_stores(layers_[i], position_, now.layers[i])) {
      if (part.n == 0) continue;
      const Store& store = *part.store;
      const auto runs = slot_runs(static_cast<std::size_t>(part.first) % store.n_slots,
                                  static_cast<std::size_t>(part.n), store.n_slots);
      for (std::size_t head = 0; head < n_head; ++head) {
        for (const SlotRun& run : runs)
          add(store.at(data_, head, run.slot).data, run.n * store.vector_bytes());
        if (store.type != CacheType::i8) continue;
        for (const SlotRun& run : runs)
          add(reinterpret_cast<const std::byte*>(store.at(data_, head, run.slot).scales),
              run.n * sizeof(float));
      }
    }
  }
  return parts;
}

bool KvCache::fits(const Held& held, std::uint64_t n_bytes) const {
  // Only widths and types matter here, not where this cache's prefix ends at the moment.
  const std::size_t n_head = model_->shape().n_head_kv;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto n_pinned = static_cast<std::uint64_t>(std::min(held.position, held.n_prefix));
    const auto n_window =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, held.position - held.layers[i]));
    const LayerSlots& layer = layers_[i];
    for (const auto& [store, n] : {std::pair{&layer.prefix_keys, n_pinned},
                                   {&layer.prefix_values, n_pinned},
                                   {&layer.ring_keys, n_window},
                                   {&layer.ring_values, n_window}}) {
      const std::uint64_t each = n_head * store->saved_bytes();
      if (n > n_bytes / each) return false;
      n_bytes -= n * each;
    }
  }
  return n_bytes == 0;
}

void KvCache::restore(const Held& held, std::span<const std::byte> bytes) {
  restart(held.n_prefix);
  position_ = held.position;
  oldest_ = held.oldest;
  const std::byte* from = bytes.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].oldest = held.layers[i];
    for (const HeldStore& part : held_stores(layers_[i], position_, held.layers[i]))
      from = restore(part, from);
  }
}

// Takes the newest of the tokens where the ring of the cache that was saved was longer than this one.
const std::byte* KvCache::restore(const HeldStore& part, const std::byte* from) {
  const Store& store = *part.store;
  const auto n = static_cast<std::size_t>(part.n);
  const std::size_t n_kept = std::min(n, store.n_slots), n_skipped = n - n_kept;
  if (n == 0) return from;
  const auto runs =
      slot_runs((static_cast<std::size_t>(part.first) + n_skipped) % store.n_slots, n_kept, store.n_slots);
  const auto take = [&](std::size_t head, std::size_t each, bool scales) {
    from += n_skipped * each;
    for (const SlotRun& run : runs) {
      const CachedVectors to = store.at(data_, head, run.slot);
      const auto* start = scales ? reinterpret_cast<const std::byte*>(to.scales) : to.data;
      std::memcpy(data_ + (start - data_), from, run.n * each);
      from += run.n * each;
    }
  };
  for (std::size_t head = 0; head < model_->shape().n_head_kv; ++head) {
    take(head, store.vector_bytes(), false);
    if (store.type == CacheType::i8) take(head, sizeof(float), true);
  }
  return from;
}

}  // namespace runnel
