#include "lib/token/merge_table.h"

#include <bit>

namespace runnel {
namespace {

std::uint64_t pair_of(SymbolId left, SymbolId right) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t n_merges) : slots_(std::bit_ceil(2 * n_merges + 2)) {
  merges_.reserve(n_merges);
}

std::size_t MergeTable::slot_of(std::uint64_t pair) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash_(pair) & mask;
  while (slots_[i].rank_plus_1 != 0 && slots_[i].pair != pair) i = (i + 1) & mask;
  return i;
}

void MergeTable::add(SymbolId left, SymbolId right, SymbolId result) {
  merges_.push_back({left, right, result});
  const std::uint64_t pair = pair_of(left, right);
  Slot& slot = slots_[slot_of(pair)];
  if (slot.rank_plus_1 == 0) slot = {pair, static_cast<std::uint32_t>(merges_.size())};
}

std::int64_t MergeTable::rank(SymbolId left, SymbolId right) const noexcept {
  return std::int64_t{slots_[slot_of(pair_of(left, right))].rank_plus_1} - 1;
}

std::size_t MergeTable::longest_run() const {
  return runnel::longest_run(slots_, [](const Slot& slot) { return slot.rank_plus_1 != 0; });
}

void PairMerger::append(SymbolId id) {
  const auto i = static_cast<std::int32_t>(symbols_.size());
  if (i > 0) symbols_.back().next = i;
  symbols_.push_back({id, i - 1, -1});
}

void PairMerger::run() {
  for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) propose(static_cast<std::int32_t>(i));
  while (!queue_.empty()) {
    const std::uint64_t top = queue_.top();
    queue_.pop();
    const PairMerge& merge = merges_.merge(top >> 32);
    const auto i = static_cast<std::int32_t>(static_cast<std::uint32_t>(top));
    Symbol& left = at(i);
    // Either symbol may have been merged otherwise since.
    if (left.id != merge.left || left.next < 0 || at(left.next).id != merge.right) continue;
    Symbol& right = at(left.next);
    left.id = merge.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).prev = i;
    if (left.prev >= 0) propose(left.prev);
    propose(i);
  }
}

void PairMerger::propose(std::int32_t left) {
  const Symbol& a = at(left);
  if (a.next < 0) return;
  const std::int64_t rank = merges_.rank(a.id, at(a.next).id);
  if (rank >= 0) queue_.push(static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(left));
}

}  // namespace runnel
