// From strings to the ids of a vocabulary: one open-addressing table, built once, over strings that live
// elsewhere.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/token/keyed_hash.h"

namespace runnel {

class TokenIndex {
 public:
  TokenIndex() : slots_(1) {}
  // Ids are positions in `texts`, which must stay where they are, fewer than 2^31. Empty strings are left
  // out; of equal ones the first is found.
  explicit TokenIndex(std::span<const std::string_view> texts);

  // -1 when there is none.
  std::int32_t find(std::string_view text) const noexcept;

  std::size_t longest_run() const;  // of full slots: a measure of the longest search

 private:
  struct Slot {
    std::uint32_t tag =
        0;  // bits of the hash, so that most other strings are told apart without reading them
    std::int32_t id = -1;
  };
  // Where text is, or the empty slot where it belongs.
  std::size_t slot_of(std::string_view text, std::uint64_t hash) const noexcept;

  KeyedHash hash_;
  std::span<const std::string_view> texts_;
  std::vector<Slot> slots_;  // a power of two, half empty at least
};

}  // namespace runnel
