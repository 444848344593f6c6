#include "chunks.h"

#include <algorithm>

#include "console.h"
#include "errors.h"
#include "feeding.h"
#include "progress.h"
#include "score.h"

namespace cli {

Chunks::Chunks(const runnel_model* model, const std::vector<std::int32_t>& text, std::size_t n_chunk,
               std::size_t first_scored)
    : text_(text), n_chunk_(n_chunk), first_scored_(first_scored), bos_(bos_of(model)) {}

std::vector<std::int32_t> Chunks::tokens(std::size_t i) const {
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(start(i));
  std::vector<std::int32_t> chunk(begin, begin + static_cast<std::ptrdiff_t>(n_chunk_));
  if (bos_ >= 0) chunk[0] = bos_;
  return chunk;
}

void Chunks::begin(runnel_session* session, const std::vector<std::int32_t>& chunk) const {
  check(runnel_session_reset(session));
  if (n_skipped() > 0) feed(session, chunk.data(), n_skipped());
}

void score_chunks(const runnel_model* model, runnel_session* session, const Chunks& chunks, Tally& tally) {
  const std::size_t n_vocab = vocabulary_size(model);
  Progress progress("perplexity", static_cast<std::int64_t>(chunks.n()), "chunks");
  for (std::size_t i_chunk = 0; i_chunk < chunks.n(); ++i_chunk) {
    const std::vector<std::int32_t> chunk = chunks.tokens(i_chunk);
    chunks.begin(session, chunk);
    std::size_t i = chunks.n_skipped();  // the token just read: its logits predict the next
    const auto score = [&](const float* logits) {
      ++i;
      tally.add(static_cast<std::int64_t>(chunks.start(i_chunk) + i),
                negative_log_likelihood(logits, n_vocab, chunk[i]));
    };
    feed(session, chunk.data() + i, chunks.n_read() - i, score);
    progress.update(static_cast<std::int64_t>(i_chunk + 1), tally.note());
  }
}

// Both sessions read a batch in turn, so that no more than a batch of logits is held.
void compare_chunks(const runnel_model* model, runnel_session* base, runnel_session* session,
                    const Chunks& chunks, Divergence& divergence) {
  const std::size_t n_vocab = vocabulary_size(model), n_batch = batch_size(session);
  std::vector<float> base_logits;
  Progress progress("divergence", static_cast<std::int64_t>(chunks.n()), "chunks");
  for (std::size_t i_chunk = 0; i_chunk < chunks.n(); ++i_chunk) {
    const std::vector<std::int32_t> chunk = chunks.tokens(i_chunk);
    chunks.begin(base, chunk);
    chunks.begin(session, chunk);
    for (std::size_t at = chunks.n_skipped(); at < chunks.n_read(); at += n_batch) {
      const std::size_t n_tokens = std::min(n_batch, chunks.n_read() - at);
      base_logits.clear();
      feed(base, chunk.data() + at, n_tokens,
           [&](const float* logits) { base_logits.insert(base_logits.end(), logits, logits + n_vocab); });
      std::size_t i = at;
      feed(session, chunk.data() + at, n_tokens, [&](const float* logits) {
        divergence.add(base_logits.data() + (i - at) * n_vocab, logits, n_vocab, chunk[i + 1]);
        ++i;
      });
    }
    progress.update(static_cast<std::int64_t>(i_chunk + 1), "KLD " + scientific(divergence.mean()));
  }
}

}  // namespace cli
