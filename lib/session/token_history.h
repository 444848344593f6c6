// Ids of the tokens that a session still has in its cache, by their position in the stream: those of the
// pinned prefix and a ring of the last ones.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/token/vocab.h"

namespace runnel {

class TokenHistory {
 public:
  // n_slots: prefix and ring together.
  TokenHistory(std::int64_t n_slots, std::int64_t n_prefix)
      : tokens_(static_cast<std::size_t>(n_slots)), n_prefix_(n_prefix) {}

  // For an empty history.
  void set_prefix(std::int64_t n_prefix) { n_prefix_ = n_prefix; }

  void put(std::int64_t position, Token token) { tokens_[slot(position)] = token; }
  Token at(std::int64_t position) const { return tokens_[slot(position)]; }

 private:
  std::size_t slot(std::int64_t position) const {
    if (position < n_prefix_) return static_cast<std::size_t>(position);
    const std::int64_t ring = static_cast<std::int64_t>(tokens_.size()) - n_prefix_;
    return static_cast<std::size_t>(n_prefix_ + (position - n_prefix_) % ring);
  }

  std::vector<Token> tokens_;
  std::int64_t n_prefix_;
};

}  // namespace runnel
