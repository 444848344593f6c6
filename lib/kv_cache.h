// Keys and values of the tokens a session still sees: a prefix that stays for ever (the attention sinks) and
// a ring of the last tokens, as in StreamingLLM (Xiao et al. 2023), exact to its definition: the model sees
// [prefix][window] as one text, with positions counted inside the cache.
//
// Three numberings are at work here:
//   position        of a token in the whole stream, from 0, without end
//   cache position  what the model is to believe: 0 .. n_prefix - 1 for the prefix, n_prefix, n_prefix + 1
//                   and so on for the window. No distance between two of them ever exceeds the cache.
//   slot            where a key lies in memory
// No key is ever moved or rotated again. Window keys are stored rotated at their position, prefix keys too,
// which there is the cache position; the query is rotated twice, at its position to meet the window
// (distances inside the window are differences of positions) and at its cache position to meet the prefix.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/aligned.h"
#include "lib/io/output.h"
#include "lib/model.h"
#include "lib/range.h"
#include "lib/settings.h"
#include "lib/system/huge_pages.h"
#include "simd/kernels.h"

namespace runnel {

struct CacheSize {
  std::int64_t n_prefix = 0;  // tokens pinned for ever
  std::int64_t window = 1;    // last tokens that are seen, the newest included; at least 1
  std::int64_t batch = 1;     // tokens that are stored before the first of them is looked at

  // Of a ring for a window of `seen` tokens: a batch is stored whole before its first token is looked at, so
  // there is room for it beside that token's window.
  std::int64_t ring_slots(std::int64_t seen) const { return seen + batch - 1; }
};

// Tokens that a query sees in one layer. The prefix is numbered by cache position, the window by position.
struct Visible {
  std::int64_t prefix_begin, prefix_end;
  std::int64_t window_begin, window_end;
};

struct PositionRange {
  std::int64_t begin, end;
};

// Numbers of some type, in int8 with a scale for each key or value.
struct CachedNumbers {
  CacheType type;
  const std::byte* data;
  const float* scales;  // int8 only
};

// Neighbouring slots of one KV head, as the kernels want them (simd/kernels.h). Keys lie in blocks of
// block_keys, a number (in int8 dot_bytes numbers) of all of them side by side, one lane a key; int8 values
// in blocks of dot_bytes. The first key of the run is number `skip` of the first block, and what lies around
// the run in its first and last block may never have been written.
struct KeyRun {
  // Keys; runs end where slots are multiples of it. Each run comes from memory as one piece; the scores of a
  // tile of queries for it stay in the L1 cache.
  static constexpr std::size_t max = simd::run_keys;

  CachedNumbers keys;    // from the first block on, scales likewise
  CachedNumbers values;  // in int8 from the first block on, scales likewise
  std::size_t skip, n;

  std::size_t n_key_blocks() const { return divided_up(skip + n, simd::block_keys); }
  // Number of the first value in its block.
  std::size_t skip_values() const { return values.type == CacheType::i8 ? skip % simd::dot_bytes : 0; }
};

class KvCache {
 public:
  KvCache(const Model& model, const CacheSize& size, CacheType type);

  // Bytes such a cache takes.
  static std::int64_t n_bytes(const Model& model, const CacheSize& size, CacheType type);

  const CacheSize& size() const { return size_; }
  CacheType type() const { return type_; }
  std::int64_t n_bytes() const { return n_bytes_; }

  std::int64_t position() const { return position_; }  // of the next token
  void advance(std::int64_t n);                        // after n tokens were stored
  std::int64_t n_seen() const;                         // tokens the newest one sees, itself included
  std::int64_t n_free() const;                         // tokens that fit before one leaves the window
  // Instead, after n tokens were stored in part: the oldest keys, whose place they took, are lost.
  void give_up(std::int64_t n);
  void clear();

  // Empties the cache and makes its first n_prefix tokens the pinned ones; prefix and window together stay
  // what they were. n_prefix is from 0 to that sum less 1. Allocates only where the new layout is larger than
  // any before; after std::bad_alloc all is as it was.
  void restart(std::int64_t n_prefix);

  // The window starts at `position` (at most position()) from now on, later than it would by its size. Costs
  // nothing: cache positions are counted from where the window starts, and no key moves.
  void evict(std::int64_t position);

  // Forgets the tokens from `position` on, so that it is the next one again. What is older than oldest()
  // stays lost: for such a position behind the prefix nothing is done, and false returned. Layers with a
  // short ring of their own may have lost more, and then see less: has_seen() tells before.
  bool rewind(std::int64_t position);
  // Whether each layer still has all tokens of the window that the one at `position` is to see in it, but for
  // those before oldest().
  bool has_seen(std::int64_t position) const;
  std::int64_t oldest() const;  // position of the oldest token of the window whose keys are still there

  // First position of the window of a query, and the query's own cache position.
  std::int64_t window_begin(std::int64_t position) const;
  std::int64_t cache_position(std::int64_t position) const;
  Visible visible(std::size_t layer, std::int64_t position) const;

  // Slots of a layer's ring, from the first on, among which the window lies.
  std::size_t n_slots(std::size_t layer, const Visible& all) const;
  // The part of the window in some of them, as it lies in memory: where the ring has begun anew, the newer
  // tokens come before the older.
  std::array<PositionRange, 2> window_in(std::size_t layer, const Visible& all, Range slots) const;

  // k: [head_dim], v: [head_dim_v] of one KV head, rotated at the token's position. Finite numbers stay so in
  // any type.
  void store(const simd::Kernels& kernels, std::size_t layer, std::size_t head, std::int64_t position,
             const float* k, const float* v) noexcept;

  // What is left of which tokens, for a file (kv_cache_saving.cpp).
  struct Held {
    std::int64_t n_prefix = 0;
    std::int64_t position = 0;
    std::int64_t oldest = 0;           // position of the oldest token of the window
    std::vector<std::int64_t> layers;  // and of the oldest each layer still has: later with a native window
  };
  Held held() const;
  // Whether the layer's native window, if it has one, is no shorter than this of the cache (tokens behind the
  // prefix), so that it keeps all that the cache does.
  bool sees_whole_window(std::size_t layer, std::int64_t window) const;
  // Bytes of all keys and values of such tokens in this cache's types; UINT64_MAX where they are beyond that.
  std::uint64_t held_bytes(const Held& held) const;
  // Gives out those of held(), in order, a few at a time.
  Result<void> give_held(const TakeBytes& take) const;

  // Takes over what another cache with the same sum of prefix and window held; its batches may have been
  // others. Fails as restart() does.
  void restore(const Held& held, std::span<const std::byte> bytes);

  // The longest run for [begin, end) of the prefix or of the window from begin on; end > begin.
  KeyRun prefix_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const;
  KeyRun window_run(std::size_t layer, std::size_t head, std::int64_t begin, std::int64_t end) const;

 private:
  // How `block` vectors lie side by side: [width / together, block, together], the last numbers filled up.
  struct Layout {
    std::size_t block, together;
  };
  // Vectors of one width for all KV heads: [n_head_kv, padded(n_slots) / block] blocks of them; and their
  // scales, [n_head_kv, padded(n_slots)].
  struct Store {
    CacheType type;
    std::size_t n_slots, width;
    Layout layout;
    std::size_t offset, scales_offset;  // bytes from the start of data_

    std::size_t element_bytes() const;
    std::size_t vector_bytes() const;  // of its numbers alone
    std::size_t slot_bytes() const;    // as it lies here
    std::size_t saved_bytes() const;   // of a vector with its scale

    CachedNumbers block_at(const std::byte* data, std::size_t head, std::size_t slot) const;
    std::span<float> scales(std::byte* data, std::size_t head, std::size_t slot, std::size_t n) const;
    void put(const simd::Kernels& kernels, std::byte* data, std::size_t head, std::size_t slot,
             const float* x) const;

    // Vectors of neighbouring slots one after another, to and from a file.
    void copy_out(const std::byte* data, std::size_t head, std::size_t slot, std::size_t n,
                  std::byte* to) const;
    void copy_in(std::byte* data, std::size_t head, std::size_t slot, std::size_t n,
                 const std::byte* from) const;

   private:
    std::size_t row(std::size_t head, std::size_t slot) const;         // among all heads' slots
    std::size_t first_byte(std::size_t head, std::size_t slot) const;  // of a vector
    // From one `together` numbers of a vector to the next, in numbers.
    std::size_t stride() const { return layout.block * layout.together; }
  };
  struct LayerSlots {
    std::int64_t native;  // cache positions that a token of this layer sees, itself included
    std::int64_t ring;    // slots of the ring
    std::int64_t oldest;  // window positions before this were overwritten
    Store prefix_keys, prefix_values, ring_keys, ring_values;
  };

  // Window positions before this are not there any more.
  std::int64_t oldest_in(const LayerSlots& layer) const;
  // Where a token of the window lies, whether it is still there or not.
  std::int64_t ring_slot(const LayerSlots& layer, std::int64_t position) const {
    return (position - size_.n_prefix) % layer.ring;
  }

  struct HeldStore {
    const Store* store;
    std::int64_t first, n;  // slot (in a ring: before it wraps) and number of vectors of each head
  };
  std::array<HeldStore, 4> held_stores(const Held& held, std::size_t layer) const;
  Result<void> give(const HeldStore& part, const TakeBytes& take) const;
  const std::byte* restore(const HeldStore& part, const std::byte* from);

  void allocate(std::int64_t n_bytes);

  // Where everything lies; returns the bytes it takes.
  static std::size_t lay_out(const Model& model, const CacheSize& size, CacheType type,
                             std::vector<LayerSlots>* layers);

  CacheSize size_;
  CacheType type_;
  std::vector<LayerSlots> layers_;
  const Model* model_;
  std::int64_t n_bytes_ = 0;  // of data_
  AlignedBytes data_;
  HugePages huge_pages_;  // of data_, made while the second half of the window fills
  std::int64_t position_ = 0;
  std::int64_t oldest_ = 0;  // window positions before this were evicted, or overwritten in the longest ring
};

}  // namespace runnel
