// A text of any length read through a session's stream and scored.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "library.h"
#include "tally.h"

namespace cli {

// The tokens of a text, which starts over when it ends; its BOS stays at the start alone.
class LoopedText {
 public:
  // `tokens` begin with `bos` where the model wants one (else bos is -1), and hold at least one token more.
  LoopedText(std::vector<std::int32_t> tokens, std::int32_t bos, std::int64_t n);

  std::int64_t n() const { return n_; }                                              // of the stream
  std::int64_t n_once() const { return static_cast<std::int64_t>(tokens_.size()); }  // of the text itself
  std::int32_t operator[](std::int64_t i) const { return tokens_[static_cast<std::size_t>(place(i))]; }
  std::int64_t place(std::int64_t i) const;  // in the text, of the stream's i-th token

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t n_lead_;  // tokens that are not repeated: BOS
  std::int64_t n_;
};

// Every token from the second on is scored. In batches, which is faster; or one by one, each timed. Throws
// Interrupted on Ctrl-C.
void score_stream(const runnel_model* model, runnel_session* session, const LoopedText& text, bool one_by_one,
                  Tally& tally);

// Reads one token, its logits included, which runnel_session_logits() then has.
Elapsed time_token(runnel_session* session, std::int32_t token);

}  // namespace cli
