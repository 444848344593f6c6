// Cuts a text at the special tokens spelled in it.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "lib/token/byte_trie.h"
#include "lib/token/vocab.h"

namespace runnel {

// What is left of a text after a token that swallows the white space after it.
std::string_view without_leading_space(std::string_view text) noexcept;

// A special token, or (token < 0) a stretch of ordinary text, never empty.
struct Fragment {
  Token token;
  std::string_view text;
};

// Finds some tokens in texts, all at once (Aho and Corasick 1975) and from the end of the text to its start:
// so each place knows the longest that starts there.
class SpecialFinder {
 public:
  // Ids: longest text first, then by id; none without text.
  SpecialFinder(const Vocab& vocab, const std::vector<Token>& ids);

  // The same as cutting out every occurrence of one token after another, in their order.
  std::vector<Fragment> split(std::string_view text) const;

 private:
  // In the order of their ranks: a smaller one is cut out first. Of equal texts the first is found.
  struct Special {
    Token id;
    std::uint32_t bytes;
    bool strips_left, strips_right;
    // The next shorter special that this one starts with, one far along that chain, and its length: some way
    // down it takes a logarithmic number of steps (Myers 1983). -1: none.
    std::int32_t shorter = -1;
    std::int32_t far = -1;
    std::int32_t n_shorter = 0;
  };
  struct Cut {
    std::size_t begin, end;  // with the white space that goes too
    Token token;
  };
  class Cutter;

  const Special& at(std::int32_t rank) const { return specials_[static_cast<std::size_t>(rank)]; }
  void link_nodes();
  void link_shorter(std::int32_t rank, std::int32_t shorter);
  ByteTrie::Node step(ByteTrie::Node node, unsigned char byte) const;
  std::int32_t shortened(std::int32_t rank, std::size_t bytes) const;

  std::vector<Special> specials_;
  ByteTrie trie_;                      // of the texts backwards
  std::vector<ByteTrie::Node> fails_;  // [node] of the longest other end of its text that is in the tree
  std::vector<std::int32_t> longest_;  // [node] rank of the longest special that its text ends in, or -1
};

// User-defined tokens are always cut out, but for a chat's markup; that, control and unknown ones only when
// `parse_special`. Longer tokens come first wherever they stand in the text, as in llama.cpp. Fragments are
// views into `text`, in order.
class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocab& vocab);

  std::vector<Fragment> split(std::string_view text, bool parse_special) const;

 private:
  std::optional<SpecialFinder> all_, user_defined_;  // none where there are no such tokens
};

}  // namespace runnel
