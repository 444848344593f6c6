#include "lib/token/token_index.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace runnel {
namespace {

// Eight bytes a step, multiplied and folded; good enough for vocabularies and cheap for their short strings.
std::uint64_t hash(std::string_view text) noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::uint64_t h = text.size() * odd;
  const auto step = [&h](std::uint64_t word) {
    h = (h ^ word) * odd;
    h ^= h >> 32;
  };
  while (text.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), 8);
    step(word);
    text.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, text.data(), text.size());
  step(rest);
  return h;
}

std::uint32_t tag_of(std::uint64_t h) noexcept { return static_cast<std::uint32_t>(h >> 32); }

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string_view> texts)
    : texts_(texts), slots_(std::bit_ceil(2 * texts.size() + 2)) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    const std::uint64_t h = hash(texts[i]);
    Slot& slot = slots_[slot_of(texts[i], h)];
    if (slot.id < 0) slot = {tag_of(h), static_cast<std::int32_t>(i)};
  }
}

std::int32_t TokenIndex::find(std::string_view text) const noexcept {
  return text.empty() ? -1 : slots_[slot_of(text, hash(text))].id;
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

}  // namespace runnel
