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
  std::string& all = held_.text;
  std::size_t& n_given = held_.n_given;
  all += piece;
  std::size_t first_end = std::string::npos;
  std::size_t begin = 0;
  found_answer_end_ = has_answer_end_ = false;
  for_each_text([&](const std::string& text) {
    const std::size_t at = all.find(text, n_given < text.size() ? 0 : n_given - text.size() + 1);
    if (at == std::string::npos) return;
    const std::size_t end = at + text.size();
    if (end > first_end) return;
    has_answer_end_ = &text == &answer_end_;  // which comes last
    if (end == first_end && at > begin) return;
    first_end = end;
    begin = at;
    found_answer_end_ = has_answer_end_;
  });
  const bool stopped = first_end != std::string::npos;
  const std::size_t n_free = stopped ? begin : all.size() - n_held();
  if (n_free > n_given) out.append(all, n_given, n_free - n_given);
  all.erase(0, stopped ? std::string::npos : n_free);
  n_given = stopped ? 0 : std::max(n_given, n_free) - n_free;
  return stopped;
}

void StopText::flush(std::string& out) {
  out.append(held_.text, held_.n_given);
  held_.n_given = held_.text.size();
}

// Length of the longest end of the text with which a stop text starts.
std::size_t StopText::n_held() const {
  const std::string& all = held_.text;
  std::size_t longest = 0;
  for_each_text([&](const std::string& text) {
    for (std::size_t n = std::min(text.size() - 1, all.size()); n > longest; --n) {
      if (all.compare(all.size() - n, n, text, 0, n) == 0) longest = n;
    }
  });
  return longest;
}

}  // namespace runnel
