#include "nearest.h"

#include <algorithm>
#include <cstddef>

namespace cli {
namespace {

// Characters put in, left out or changed, or two neighbours exchanged: the optimal string alignment distance,
// row by row of its table.
std::size_t n_edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, changed});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t most = (word.size() + 2) / 4;  // one in a short word, and none in a letter
  for (const std::string& name : names) {
    if (const std::size_t n = n_edits(word, name); n <= most && (best.empty() || n < most)) {
      best = name;
      most = n;
    }
  }
  return best;
}

}  // namespace cli
