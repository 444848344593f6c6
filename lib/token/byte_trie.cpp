#include "lib/token/byte_trie.h"

#include <algorithm>
#include <utility>

#include "lib/range.h"

namespace runnel {
namespace {

// Positions of the texts that are not empty, in alphabetical order, equal ones in their own.
std::vector<std::int32_t> sorted(std::span<const std::string_view> texts) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) order.push_back(static_cast<std::int32_t>(i));
  }
  std::sort(order.begin(), order.end(), [texts](std::int32_t a, std::int32_t b) {
    return std::pair(texts[static_cast<std::size_t>(a)], a) <
           std::pair(texts[static_cast<std::size_t>(b)], b);
  });
  return order;
}

}  // namespace

ByteTrie::ByteTrie(std::span<const std::string_view> texts) : bytes_(1) {
  const std::vector<std::int32_t> order = sorted(texts);
  const auto text = [&](std::size_t i) { return texts[static_cast<std::size_t>(order[i])]; };
  // For each node of a level the sorted texts that start with its prefix.
  std::vector<Range> level = {{0, order.size()}}, below;
  for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(below), below.clear()) {
    for (auto [i, end] : level) {
      first_child_.push_back(static_cast<Node>(size()));
      text_at_.push_back(i < end && text(i).size() == depth ? order[i] : -1);
      while (i < end && text(i).size() == depth) ++i;
      while (i < end) {
        const std::size_t begin = i;
        const char byte = text(i)[depth];
        while (i < end && text(i)[depth] == byte) ++i;
        bytes_.push_back(static_cast<unsigned char>(byte));
        below.push_back({begin, i});
      }
    }
  }
  first_child_.push_back(static_cast<Node>(size()));
  children_of_root_.fill(none);
  for (Node node = first_child_[root]; node < first_child_[root + 1]; ++node) {
    children_of_root_[bytes_[node]] = node;
  }
}

ByteTrie::Node ByteTrie::bisect(Node node, unsigned char byte) const noexcept {
  Node begin = first_child_[node], end = first_child_[node + 1];
  while (begin < end) {
    const Node middle = begin + (end - begin) / 2;
    if (bytes_[middle] == byte) return middle;
    if (bytes_[middle] < byte) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return none;
}

}  // namespace runnel
