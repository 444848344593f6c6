// Ends a generation at a stop text, wherever the pieces it comes in are cut.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace runnel {

class StopText {
 public:
  StopText() = default;
  explicit StopText(std::vector<std::string> stops);  // empty ones are left out

  // Takes the next piece and appends to `out` what cannot be part of a stop text any more. True: a stop text
  // is complete; what comes before it has been given out, it and the rest are dropped. The one that is
  // complete first counts, of several the longest. Allocates nothing once buffers have their size.
  bool push(std::string_view piece, std::string& out);

  void flush(std::string& out);  // end of text: gives out what was held back
  void clear() { held_.clear(); }

 private:
  std::size_t n_held_back() const;

  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace runnel
