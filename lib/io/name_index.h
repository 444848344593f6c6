// Finds items of a vector by name: their positions in alphabetical order, bisected. Small (4 bytes an item),
// and unlike a hash table never slow, whatever names a hostile file chooses.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace runnel {

// `name_of(i)` gives item i's name as a string_view; it has to be the same in all calls on one index.
class NameIndex {
 public:
  template <class NameOf>
  void build(std::uint32_t n_items, NameOf name_of) {
    order_.resize(n_items);
    for (std::uint32_t i = 0; i < n_items; ++i) order_[i] = i;
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(name_of(a), a) < std::pair(name_of(b), b);
    });
  }

  template <class NameOf>
  std::optional<std::uint32_t> find(std::string_view name, NameOf name_of) const {
    const auto found = std::lower_bound(order_.begin(), order_.end(), name,
                                        [&](std::uint32_t i, std::string_view n) { return name_of(i) < n; });
    if (found == order_.end() || name_of(*found) != name) return std::nullopt;
    return *found;
  }

  // Two items of the same name, in their order, if there are any.
  template <class NameOf>
  std::optional<std::pair<std::uint32_t, std::uint32_t>> find_duplicate(NameOf name_of) const {
    for (std::size_t i = 1; i < order_.size(); ++i) {
      if (name_of(order_[i - 1]) == name_of(order_[i])) return std::pair(order_[i - 1], order_[i]);
    }
    return std::nullopt;
  }

 private:
  std::vector<std::uint32_t> order_;
};

}  // namespace runnel
