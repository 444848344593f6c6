// Positions at which an exchange (a message and its answer) begins, oldest first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace runnel {

class TurnMarks {
 public:
  TurnMarks() = default;
  explicit TurnMarks(std::vector<std::int64_t> marks) : marks_(std::move(marks)) {}  // in order, each once

  // Positions come in order; one that is marked already is not marked twice.
  void mark(std::int64_t position) {
    if (marks_.empty() || marks_.back() < position) marks_.push_back(position);
  }

  void clear() { marks_.clear(); }
  void forget_before(std::int64_t position) { marks_.erase(marks_.begin(), at_or_after(position)); }
  void forget_after(std::int64_t position) { marks_.erase(at_or_after(position + 1), marks_.end()); }

  // The first and the last mark in [begin, end).
  std::optional<std::int64_t> first_in(std::int64_t begin, std::int64_t end) const {
    const auto mark = at_or_after(begin);
    return mark != marks_.end() && *mark < end ? std::optional(*mark) : std::nullopt;
  }
  std::optional<std::int64_t> last_in(std::int64_t begin, std::int64_t end) const {
    const auto mark = at_or_after(end);
    return mark != marks_.begin() && mark[-1] >= begin ? std::optional(mark[-1]) : std::nullopt;
  }
  std::int64_t count_in(std::int64_t begin, std::int64_t end) const {
    return begin < end ? at_or_after(end) - at_or_after(begin) : 0;
  }

  std::span<const std::int64_t> all() const { return marks_; }

 private:
  std::vector<std::int64_t>::const_iterator at_or_after(std::int64_t position) const {
    return std::lower_bound(marks_.begin(), marks_.end(), position);
  }

  std::vector<std::int64_t> marks_;
};

}  // namespace runnel
