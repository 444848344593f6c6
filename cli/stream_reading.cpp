#include "stream_reading.h"

#include <algorithm>
#include <utility>

#include "feeding.h"
#include "progress.h"
#include "score.h"

namespace cli {
namespace {

void score_in_batches(runnel_session* session, const LoopedText& text, std::size_t n_vocab, Tally& tally,
                      Progress& progress) {
  const std::int64_t n_cache = runnel_session_stat(session, RUNNEL_STAT_CACHE_SIZE);
  const auto n_batch = static_cast<std::int64_t>(batch_size(session));
  std::vector<std::int32_t> batch(static_cast<std::size_t>(std::min(n_batch, text.n())));
  std::int64_t i = 0;  // of the token that the next logits predict
  const OnLogits score = [&](const float* logits) {
    if (++i < text.n()) tally.add(i, negative_log_likelihood(logits, n_vocab, text[i]), text.place(i));
  };
  for (std::int64_t at = 0; at < text.n(); at += n_batch) {
    const std::int64_t n = std::min(n_batch, text.n() - at);
    for (std::int64_t j = 0; j < n; ++j) batch[static_cast<std::size_t>(j)] = text[at + j];
    feed(session, batch.data(), static_cast<std::size_t>(n), score);
    if (at > n_cache) tally.settled();
    progress.update(at + n, tally.note());
  }
}

void score_one_by_one(runnel_session* session, const LoopedText& text, std::size_t n_vocab, Tally& tally,
                      Progress& progress) {
  const std::int64_t n_cache = runnel_session_stat(session, RUNNEL_STAT_CACHE_SIZE);
  for (std::int64_t i = 0; i + 1 < text.n(); ++i) {
    tally.add_time(i, time_token(session, text[i]));
    tally.add(i + 1, negative_log_likelihood(runnel_session_logits(session), n_vocab, text[i + 1]),
              text.place(i + 1));
    if (i % 256 != 0) continue;
    if (i > n_cache) tally.settled();
    progress.update(i, tally.note());
  }
}

}  // namespace

LoopedText::LoopedText(std::vector<std::int32_t> tokens, std::int32_t bos, std::int64_t n)
    : tokens_(std::move(tokens)), n_lead_(bos >= 0 && tokens_.front() == bos ? 1 : 0), n_(n) {}

std::int64_t LoopedText::place(std::int64_t i) const {
  return i < n_once() ? i : n_lead_ + (i - n_lead_) % (n_once() - n_lead_);
}

Elapsed time_token(runnel_session* session, std::int32_t token) {
  const Stopwatch watch;
  feed(session, &token, 1);
  return watch.elapsed();
}

void score_stream(const runnel_model* model, runnel_session* session, const LoopedText& text, bool one_by_one,
                  Tally& tally) {
  Progress progress("perplexity", text.n(), "tokens");
  (one_by_one ? score_one_by_one : score_in_batches)(session, text, vocabulary_size(model), tally, progress);
}

}  // namespace cli
