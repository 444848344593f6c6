#include "lib/token/special_split.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>

namespace runnel {
namespace {

bool is_ascii_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

// <|im_end|>, <｜User｜>. Old files have a chat's markup among the user-defined tokens, which are cut out of
// what users type, too; converters have since made it control tokens.
bool is_markup(std::string_view text) noexcept {
  return (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with("<｜") && text.ends_with("｜>"));
}

ByteTrie trie_of_reversed(const Vocab& vocab, const std::vector<Token>& ids) {
  std::vector<std::string> reversed;
  reversed.reserve(ids.size());
  for (const Token id : ids) reversed.emplace_back(vocab.text(id).rbegin(), vocab.text(id).rend());
  return ByteTrie(std::vector<std::string_view>(reversed.begin(), reversed.end()));
}

}  // namespace

std::string_view without_leading_space(std::string_view text) noexcept {
  while (!text.empty() && is_ascii_space(text.front())) text.remove_prefix(1);
  return text;
}

SpecialFinder::SpecialFinder(const Vocab& vocab, const std::vector<Token>& ids)
    : trie_(trie_of_reversed(vocab, ids)) {
  for (const Token id : ids) {
    specials_.push_back({.id = id,
                         .bytes = static_cast<std::uint32_t>(vocab.text(id).size()),
                         .strips_left = vocab.has(id, token_strips_left),
                         .strips_right = vocab.has(id, token_strips_right)});
  }
  link_nodes();
}

void SpecialFinder::link_nodes() {
  fails_.assign(trie_.size(), ByteTrie::root);
  longest_.assign(trie_.size(), -1);
  trie_.for_each_edge([this](ByteTrie::Node parent, ByteTrie::Node node, unsigned char byte) {
    if (parent != ByteTrie::root) fails_[node] = step(fails_[parent], byte);
    const std::int32_t shorter = longest_[fails_[node]];
    longest_[node] = trie_.text_at(node);
    if (longest_[node] < 0) {
      longest_[node] = shorter;
    } else {
      link_shorter(longest_[node], shorter);
    }
  });
}

// Nodes come in the order of their depths, so the chain of the shorter one is complete.
void SpecialFinder::link_shorter(std::int32_t rank, std::int32_t shorter) {
  Special& special = specials_[static_cast<std::size_t>(rank)];
  special.shorter = shorter;
  if (shorter < 0) return;
  const auto n_shorter_of = [this](std::int32_t i) { return i < 0 ? -1 : at(i).n_shorter; };
  const Special& next = at(shorter);
  special.n_shorter = next.n_shorter + 1;
  special.far = shorter;
  if (next.far < 0) return;
  const std::int32_t first_jump = next.n_shorter - n_shorter_of(next.far);
  const std::int32_t second_jump = n_shorter_of(next.far) - n_shorter_of(at(next.far).far);
  if (first_jump == second_jump) special.far = at(next.far).far;
}

ByteTrie::Node SpecialFinder::step(ByteTrie::Node node, unsigned char byte) const {
  for (;; node = fails_[node]) {
    const ByteTrie::Node next = trie_.child(node, byte);
    if (next != ByteTrie::none) return next;
    if (node == ByteTrie::root) return ByteTrie::root;
  }
}

// The special itself or the longest that it starts with, of no more than so many bytes; -1: none.
std::int32_t SpecialFinder::shortened(std::int32_t rank, std::size_t bytes) const {
  while (rank >= 0 && at(rank).bytes > bytes) {
    const std::int32_t far = at(rank).far;
    rank = far >= 0 && at(far).bytes > bytes ? far : at(rank).shorter;
  }
  return rank;
}

// One text in work. Occurrences are cut by rank and then from the left, if all of their bytes are still free.
// What is cut is never free again, so for each place one candidate is enough: the longest that may still fit
// there. When one is blocked, the room before the block is less than half of what it was when the candidate
// was chosen, as the block is at least as long: a place comes up a logarithmic number of times.
class SpecialFinder::Cutter {
 public:
  Cutter(const SpecialFinder& finder, std::string_view text) : finder_(finder), text_(text) {}

  std::vector<Cut> run() {
    find_candidates();
    if (!queue_.empty()) cut_at_.assign(text_.size(), 0);
    while (!queue_.empty()) {
      const std::uint64_t top = queue_.top();
      queue_.pop();
      consider(static_cast<std::int32_t>(top >> 32), static_cast<std::uint32_t>(top));
    }
    std::sort(cuts_.begin(), cuts_.end(), [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
    return std::move(cuts_);
  }

 private:
  using Queue = std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>>;

  static std::uint64_t candidate(std::int32_t rank, std::size_t place) {
    return static_cast<std::uint64_t>(rank) << 32 | place;
  }

  void find_candidates() {
    std::vector<std::uint64_t> found;
    ByteTrie::Node node = ByteTrie::root;
    for (std::size_t i = text_.size(); i-- > 0;) {
      node = finder_.step(node, static_cast<unsigned char>(text_[i]));
      const std::int32_t rank = finder_.longest_[node];
      if (rank >= 0) found.push_back(candidate(rank, i));
    }
    queue_ = Queue({}, std::move(found));
  }

  // All cuts so far are at least as long as the special: one that overlaps covers its first byte or its last.
  void consider(std::int32_t rank, std::size_t begin) {
    if (!is_free(begin)) return;
    const std::size_t last = begin + finder_.at(rank).bytes - 1;
    if (is_free(last)) {
      cut(finder_.at(rank), begin);
      return;
    }
    const std::size_t room = cuts_[cut_at_[last] - 1].begin - begin;
    const std::int32_t shorter = finder_.shortened(rank, room);
    if (shorter >= 0) queue_.push(candidate(shorter, begin));
  }

  void cut(const Special& special, std::size_t begin) {
    std::size_t end = begin + special.bytes;
    while (special.strips_left && begin > 0 && is_free(begin - 1) && is_ascii_space(text_[begin - 1]))
      --begin;
    while (special.strips_right && end < text_.size() && is_free(end) && is_ascii_space(text_[end])) ++end;
    cuts_.push_back({begin, end, special.id});
    std::fill(cut_at_.begin() + static_cast<std::ptrdiff_t>(begin),
              cut_at_.begin() + static_cast<std::ptrdiff_t>(end), static_cast<std::uint32_t>(cuts_.size()));
  }

  bool is_free(std::size_t i) const { return cut_at_[i] == 0; }

  const SpecialFinder& finder_;
  std::string_view text_;
  Queue queue_;                        // of rank and place, the order in which they are considered
  std::vector<Cut> cuts_;              // in the order in which they were made
  std::vector<std::uint32_t> cut_at_;  // [byte] 0: free, or the number of its cut
};

std::vector<Fragment> SpecialFinder::split(std::string_view text) const {
  std::vector<Fragment> fragments;
  std::size_t at = 0;
  for (const Cut& cut : Cutter(*this, text).run()) {
    if (cut.begin > at) fragments.push_back({-1, text.substr(at, cut.begin - at)});
    fragments.push_back({cut.token, {}});
    at = cut.end;
  }
  if (at < text.size()) fragments.push_back({-1, text.substr(at)});
  return fragments;
}

SpecialSplitter::SpecialSplitter(const Vocab& vocab) {
  std::vector<Token> user_defined;
  for (const Token id : vocab.partition_ids) {
    if (!vocab.has(id, token_control | token_unknown) && !is_markup(vocab.text(id)))
      user_defined.push_back(id);
  }
  if (!vocab.partition_ids.empty()) all_.emplace(vocab, vocab.partition_ids);
  if (!user_defined.empty()) user_defined_.emplace(vocab, user_defined);
}

std::vector<Fragment> SpecialSplitter::split(std::string_view text, bool parse_special) const {
  if (text.empty()) return {};
  const std::optional<SpecialFinder>& finder = parse_special ? all_ : user_defined_;
  return finder ? finder->split(text) : std::vector<Fragment>{{-1, text}};
}

}  // namespace runnel
