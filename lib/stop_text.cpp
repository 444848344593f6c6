#include "lib/stop_text.h"

#include <algorithm>

namespace runnel {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

bool StopText::push(std::string_view piece, std::string& out) {
  held_ += piece;
  std::size_t first_end = std::string::npos;
  std::size_t begin = 0;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stop.size();
    if (end < first_end || (end == first_end && at < begin)) {
      first_end = end;
      begin = at;
    }
  }
  const bool stopped = first_end != std::string::npos;
  const std::size_t n_free = stopped ? begin : held_.size() - n_held_back();
  out.append(held_, 0, n_free);
  held_.erase(0, stopped ? std::string::npos : n_free);
  return stopped;
}

void StopText::flush(std::string& out) {
  out += held_;
  held_.clear();
}

// Length of the longest end of held_ with which a stop text starts.
std::size_t StopText::n_held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return longest;
}

}  // namespace runnel
