#include "lib/token/token_index.h"

#include <bit>
#include <cstddef>

namespace runnel {
namespace {

std::uint32_t tag_of(std::uint64_t h) noexcept { return static_cast<std::uint32_t>(h >> 32); }

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string_view> texts)
    : texts_(texts), slots_(std::bit_ceil(2 * texts.size() + 2)) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    const std::uint64_t h = hash_(texts[i]);
    Slot& slot = slots_[slot_of(texts[i], h)];
    if (slot.id < 0) slot = {tag_of(h), static_cast<std::int32_t>(i)};
  }
}

std::int32_t TokenIndex::find(std::string_view text) const noexcept {
  return text.empty() ? -1 : slots_[slot_of(text, hash_(text))].id;
}

std::size_t TokenIndex::slot_of(std::string_view text, std::uint64_t h) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = h & mask;
  while (slots_[i].id >= 0) {
    if (slots_[i].tag == tag_of(h) && texts_[static_cast<std::size_t>(slots_[i].id)] == text) break;
    i = (i + 1) & mask;
  }
  return i;
}

std::size_t TokenIndex::longest_run() const {
  return runnel::longest_run(slots_, [](const Slot& slot) { return slot.id >= 0; });
}

}  // namespace runnel
