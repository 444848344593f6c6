#include "lib/session/stop_text.h"

#include <algorithm>

namespace runnel {

void StopText::set_stops(std::vector<std::string> stops) noexcept {
  std::erase_if(stops, [](const std::string& stop) { return stop.empty(); });
  stops_ = std::move(stops);
}

template <class Look>
void StopText::for_each_text(Look look) const {
  for (const std::string& stop : stops_) look(stop);
  if (!answer_end_.empty()) look(answer_end_);
}

bool StopText::push(std::string_view piece, std::string& out) {
  text_ += piece;
  std::size_t first_end = std::string::npos;
  std::size_t begin = 0;
  found_answer_end_ = false;
  for_each_text([&](const std::string& text) {
    const std::size_t at = text_.find(text, n_given_ < text.size() ? 0 : n_given_ - text.size() + 1);
    if (at == std::string::npos) return;
    const std::size_t end = at + text.size();
    if (end > first_end || (end == first_end && at > begin)) return;
    first_end = end;
    begin = at;
    found_answer_end_ = &text == &answer_end_;
  });
  const bool stopped = first_end != std::string::npos;
  const std::size_t n_free = stopped ? begin : text_.size() - n_held();
  if (n_free > n_given_) out.append(text_, n_given_, n_free - n_given_);
  text_.erase(0, stopped ? std::string::npos : n_free);
  n_given_ = stopped ? 0 : std::max(n_given_, n_free) - n_free;
  return stopped;
}

void StopText::flush(std::string& out) {
  out.append(text_, n_given_);
  n_given_ = text_.size();
}

void StopText::clear() noexcept {
  text_.clear();
  n_given_ = 0;
}

// Length of the longest end of text_ with which a stop text starts.
std::size_t StopText::n_held() const {
  std::size_t longest = 0;
  for_each_text([&](const std::string& text) {
    for (std::size_t n = std::min(text.size() - 1, text_.size()); n > longest; --n) {
      if (text_.compare(text_.size() - n, n, text, 0, n) == 0) longest = n;
    }
  });
  return longest;
}

}  // namespace runnel
