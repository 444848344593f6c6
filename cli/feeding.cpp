#include "feeding.h"

#include <algorithm>
#include <cstdlib>

#include "progress.h"

namespace cli {

std::size_t batch_size(runnel_session* session) {
  const char* batch = runnel_session_get(session, "batch");
  return std::max<std::size_t>(1, batch ? std::strtoul(batch, nullptr, 10) : 1);
}

void feed_with_progress(runnel_session* session, const std::vector<std::int32_t>& tokens,
                        const std::string& label, const OnLogits& on_logits) {
  const std::size_t n_batch = batch_size(session);
  Progress progress(label, static_cast<std::int64_t>(tokens.size()), "tokens");
  for (std::size_t at = 0; at < tokens.size(); at += n_batch) {
    const std::size_t n_tokens = std::min(n_batch, tokens.size() - at);
    feed(session, tokens.data() + at, n_tokens, on_logits);
    progress.update(static_cast<std::int64_t>(at + n_tokens));
  }
}

}  // namespace cli
