// Ends a generation at a stop text, or at the text that ends an answer, wherever the pieces it comes in are
// cut.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runnel {

class StopText {
 public:
  StopText() = default;
  explicit StopText(std::vector<std::string> stops) { set_stops(std::move(stops)); }

  void set_stops(std::vector<std::string> stops) noexcept;  // empty ones are left out
  void set_answer_end(std::string text) noexcept { answer_end_ = std::move(text); }  // "" for none

  // Takes the next piece and appends to `out` what cannot be part of a stop text any more. True: a stop text
  // is complete; what comes before it has been given out, it and the rest are dropped. The one that is
  // complete first counts, of several the longest. Allocates nothing once buffers have their size.
  bool push(std::string_view piece, std::string& out);
  // Whether what the last push() found is the end of an answer, and not, or not only, one of the stop texts.
  bool found_answer_end() const { return found_answer_end_; }
  // Or whether what it found ends with the end of an answer.
  bool has_answer_end() const { return has_answer_end_; }

  // Gives out what was held back. A stop text that began in it may still become complete; what of it was
  // given out then stays so.
  void flush(std::string& out);
  // Another text begins.
  void clear() noexcept { held_ = {}; }

  struct Held {
    std::string text;         // the end of all text, with which a stop text may begin
    std::size_t n_given = 0;  // its first bytes, which flush() gave out
  };
  const Held& held() const { return held_; }
  void restore(Held held) noexcept { held_ = std::move(held); }

 private:
  template <class Look>
  void for_each_text(Look look) const;
  std::size_t n_held() const;

  std::vector<std::string> stops_;
  std::string answer_end_;
  Held held_;
  bool found_answer_end_ = false, has_answer_end_ = false;
};

}  // namespace runnel
