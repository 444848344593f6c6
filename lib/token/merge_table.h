// Merges of byte-pair encoding by the ids of their two parts, and the merging of a piece in O(n log n).
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "lib/token/keyed_hash.h"

namespace runnel {

using SymbolId = std::int32_t;  // >= 0

struct PairMerge {
  SymbolId left, right, result;
};

// Open addressing over pairs of ids.
class MergeTable {
 public:
  MergeTable() : slots_(1) {}
  explicit MergeTable(std::size_t n_merges);

  // Each merge comes after those added before it. A pair that is already there keeps its place.
  void add(SymbolId left, SymbolId right, SymbolId result);

  // Position of the pair among the merges, smaller for an earlier one; -1 when it does not merge.
  std::int64_t rank(SymbolId left, SymbolId right) const noexcept;
  const PairMerge& merge(std::size_t rank) const { return merges_[rank]; }

  std::size_t longest_run() const;  // of full slots: a measure of the longest search

 private:
  struct Slot {
    std::uint64_t pair = 0;
    std::uint32_t rank_plus_1 = 0;  // 0: empty
  };
  std::size_t slot_of(std::uint64_t pair) const noexcept;

  KeyedHash hash_;
  std::vector<PairMerge> merges_;
  std::vector<Slot> slots_;  // a power of two, half empty at least
};

// Merges the symbols of one piece; can be used for one after another.
class PairMerger {
 public:
  explicit PairMerger(const MergeTable& merges) : merges_(merges) {}

  void clear() { symbols_.clear(); }
  void append(SymbolId id);
  void run();

  // Calls f(id) for each symbol that is left, in order.
  template <class F>
  void for_each(F&& f) const {
    for (std::int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next) {
      f(symbols_[static_cast<std::size_t>(i)].id);
    }
  }

 private:
  struct Symbol {
    SymbolId id;        // -1: merged into the symbol before it
    std::int32_t prev;  // -1 at the ends
    std::int32_t next;
  };
  Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }
  void propose(std::int32_t left);

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  // Rank in the upper half, index of the left symbol in the lower: the order in which merges are made.
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue_;
};

}  // namespace runnel
