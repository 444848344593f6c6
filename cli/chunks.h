// A text in independent chunks of tokens, each of which begins with BOS where the model wants one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "divergence.h"
#include "library.h"
#include "tally.h"

namespace cli {

class Chunks {
 public:
  // `text` is the tokens of all chunks and must outlive this. Tokens [first_scored, n_chunk) of each are
  // scored.
  Chunks(const runnel_model* model, const std::vector<std::int32_t>& text, std::size_t n_chunk,
         std::size_t first_scored);

  std::size_t n() const { return text_.size() / n_chunk_; }
  std::size_t start(std::size_t i) const { return i * n_chunk_; }
  std::size_t n_skipped() const { return first_scored_ - 1; }  // tokens whose logits nobody wants
  std::size_t n_read() const { return n_chunk_ - 1; }          // the last one is only predicted

  std::vector<std::int32_t> tokens(std::size_t i) const;
  // Reads the tokens before the scored ones into an emptied session.
  void begin(runnel_session* session, const std::vector<std::int32_t>& chunk) const;

 private:
  const std::vector<std::int32_t>& text_;
  std::size_t n_chunk_, first_scored_;
  std::int32_t bos_;
};

// Both show their progress and throw Interrupted on Ctrl-C.
void score_chunks(const runnel_model* model, runnel_session* session, const Chunks& chunks, Tally& tally);
void compare_chunks(const runnel_model* model, runnel_session* base, runnel_session* session,
                    const Chunks& chunks, Divergence& divergence);

}  // namespace cli
