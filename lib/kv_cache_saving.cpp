// What a cache holds as bytes, whatever ring it lies in: by layer (prefix keys, prefix values, window keys,
// window values) and KV head the vectors of the tokens in order of position, in int8 followed by their
// scales.
#include <algorithm>
#include <array>
#include <cstring>

#include "lib/kv_cache.h"

namespace runnel {
namespace {

constexpr std::size_t piece_vectors = 512;  // of one head, that are given out at a time

struct SlotRun {
  std::size_t slot, n;
};

// Slots of n neighbouring positions in a ring: one run, or two around its end.
std::array<SlotRun, 2> slot_runs(std::size_t first, std::size_t n, std::size_t n_slots) {
  const std::size_t n_first = std::min(n, n_slots - first);
  return {{{first, n_first}, {0, n - n_first}}};
}

// Where pieces of a vector lie, so many bytes apart.
template <class Byte>
struct Pieces {
  Byte* first;
  std::size_t step;
};
using PiecesTo = Pieces<std::byte>;
using PiecesFrom = Pieces<const std::byte>;

// n pieces of a size the compiler knows. A file aligns nothing.
template <std::size_t n_bytes>
void copy_pieces(PiecesTo to, PiecesFrom from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    std::memcpy(to.first + i * to.step, from.first + i * from.step, n_bytes);
}

// The numbers of a vector, `together` bytes of them side by side.
void copy_vector(std::size_t together, PiecesTo to, PiecesFrom from, std::size_t n_bytes) {
  const std::size_t n = n_bytes / together;
  switch (together) {
    case 1:
      copy_pieces<1>(to, from, n);
      break;
    case 2:
      copy_pieces<2>(to, from, n);
      break;
    case 4:
      copy_pieces<4>(to, from, n);
      break;
  }
  std::copy_n(from.first + n * from.step, n_bytes % together, to.first + n * to.step);
}

}  // namespace

void KvCache::Store::copy_out(const std::byte* data, std::size_t head, std::size_t slot, std::size_t n,
                              std::byte* to) const {
  if (layout.block == 1) {
    std::copy_n(data + first_byte(head, slot), n * vector_bytes(), to);
    return;
  }
  const std::size_t together = layout.together * element_bytes();
  for (std::size_t i = 0; i < n; ++i)
    copy_vector(together, {to + i * vector_bytes(), together},
                {data + first_byte(head, slot + i), stride() * element_bytes()}, vector_bytes());
}

void KvCache::Store::copy_in(std::byte* data, std::size_t head, std::size_t slot, std::size_t n,
                             const std::byte* from) const {
  if (layout.block == 1) {
    std::copy_n(from, n * vector_bytes(), data + first_byte(head, slot));
    return;
  }
  const std::size_t together = layout.together * element_bytes();
  for (std::size_t i = 0; i < n; ++i)
    copy_vector(together, {data + first_byte(head, slot + i), stride() * element_bytes()},
                {from + i * vector_bytes(), together}, vector_bytes());
}

std::array<KvCache::HeldStore, 4> KvCache::held_stores(const Held& held, std::size_t layer) const {
  const LayerSlots& slots = layers_[layer];
  const std::int64_t n_pinned = std::min(held.position, held.n_prefix);
  const std::int64_t first = held.layers[layer] - held.n_prefix;
  const std::int64_t n_window = std::max<std::int64_t>(0, held.position - held.layers[layer]);
  return {{{&slots.prefix_keys, 0, n_pinned},
           {&slots.prefix_values, 0, n_pinned},
           {&slots.ring_keys, first, n_window},
           {&slots.ring_values, first, n_window}}};
}

KvCache::Held KvCache::held() const {
  Held held{size_.n_prefix, position_, oldest(), {}};
  held.layers.reserve(layers_.size());
  const std::int64_t end = std::max(held.oldest, position_);
  for (const LayerSlots& layer : layers_)
    held.layers.push_back(std::min(end, std::max(held.oldest, oldest_in(layer))));
  return held;
}

bool KvCache::sees_whole_window(std::size_t layer, std::int64_t window) const {
  return layers_[layer].native >= window;
}

std::uint64_t KvCache::held_bytes(const Held& held) const {
  // Only widths and types matter here, not where this cache's prefix ends at the moment.
  std::uint64_t n_bytes = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const HeldStore& part : held_stores(held, i)) {
      const std::uint64_t each = model_->shape().n_head_kv * part.store->saved_bytes();
      const auto n = static_cast<std::uint64_t>(part.n);
      if (n > (UINT64_MAX - n_bytes) / each) return UINT64_MAX;
      n_bytes += n * each;
    }
  }
  return n_bytes;
}

Result<void> KvCache::give_held(const TakeBytes& take) const {
  const Held now = held();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const HeldStore& part : held_stores(now, i)) RUNNEL_TRY(give(part, take));
  }
  return {};
}

Result<void> KvCache::give(const HeldStore& part, const TakeBytes& take) const {
  const Store& store = *part.store;
  if (part.n == 0) return {};
  const auto runs = slot_runs(static_cast<std::size_t>(part.first) % store.n_slots,
                              static_cast<std::size_t>(part.n), store.n_slots);
  const std::size_t vector_bytes = store.vector_bytes();
  std::vector<std::byte> piece(piece_vectors * vector_bytes);
  for (std::size_t head = 0; head < model_->shape().n_head_kv; ++head) {
    for (const SlotRun& run : runs) {
      for (std::size_t i = 0; i < run.n; i += piece_vectors) {
        const std::size_t n = std::min(piece_vectors, run.n - i);
        store.copy_out(data_.get(), head, run.slot + i, n, piece.data());
        RUNNEL_TRY(take(std::span(piece).first(n * vector_bytes)));
      }
    }
    if (store.type != CacheType::i8) continue;
    for (const SlotRun& run : runs)
      RUNNEL_TRY(take(std::as_bytes(store.scales(data_.get(), head, run.slot, run.n))));
  }
  return {};
}

void KvCache::restore(const Held& held, std::span<const std::byte> bytes) {
  restart(held.n_prefix);
  position_ = held.position;
  oldest_ = held.oldest;
  const std::byte* from = bytes.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].oldest = held.layers[i];
    for (const HeldStore& part : held_stores(held, i)) from = restore(part, from);
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
  for (std::size_t head = 0; head < model_->shape().n_head_kv; ++head) {
    from += n_skipped * store.vector_bytes();
    for (const SlotRun& run : runs) {
      store.copy_in(data_.get(), head, run.slot, run.n, from);
      from += run.n * store.vector_bytes();
    }
    if (store.type != CacheType::i8) continue;
    from += n_skipped * sizeof(float);
    for (const SlotRun& run : runs) {
      const std::span<float> scales = store.scales(data_.get(), head, run.slot, run.n);
      std::copy_n(from, scales.size_bytes(), std::as_writable_bytes(scales).begin());
      from += scales.size_bytes();
    }
  }
  return from;
}

}  // namespace runnel
