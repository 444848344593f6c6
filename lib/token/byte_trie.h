// The prefixes of a set of texts as a tree, a byte an edge. Nodes are numbered breadth first, so that a node
// comes after its parent and children stand side by side: nine bytes a node.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace runnel {

class ByteTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node root = 0;
  static constexpr Node none = 0xFFFFFFFF;

  // The texts are needed only here; fewer than 2^31, and bytes in all. Empty ones are left out; of equal ones
  // the first is found.
  explicit ByteTrie(std::span<const std::string_view> texts);

  std::size_t size() const { return bytes_.size(); }

  Node child(Node node, unsigned char byte) const noexcept {
    return node == root ? children_of_root_[byte] : bisect(node, byte);
  }

  // Position of the text that ends at the node; -1 when none does.
  std::int32_t text_at(Node node) const { return text_at_[node]; }

  // Calls f(parent, child, byte) for each edge, parents in the order of their numbers.
  template <class F>
  void for_each_edge(F&& f) const {
    for (Node parent = 0; parent < size(); ++parent) {
      for (Node child = first_child_[parent]; child < first_child_[parent + 1]; ++child) {
        f(parent, child, bytes_[child]);
      }
    }
  }

 private:
  Node bisect(Node node, unsigned char byte) const noexcept;

  std::vector<Node> first_child_;     // [size + 1]
  std::vector<unsigned char> bytes_;  // [size] on the edge to the node; ascending among siblings
  std::vector<std::int32_t> text_at_;
  std::array<Node, 256> children_of_root_;
};

}  // namespace runnel
