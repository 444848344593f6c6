// What a session does next, to be compared to the bit.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/support/api.h"

namespace runnel::test {

inline std::vector<float> logits_of(const runnel_session* session, std::size_t n_vocab) {
  const float* logits = runnel_session_logits(session);
  return logits ? std::vector<float>(logits, logits + n_vocab) : std::vector<float>();
}

struct Continuation {
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;  // before the first token and after each
  bool operator==(const Continuation&) const = default;
};

// Samples and reads n tokens.
inline Continuation continue_for(runnel_session* session, std::size_t n_vocab, std::size_t n) {
  Continuation result{{}, logits_of(session, n_vocab)};
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t token = 0;
    require(runnel_session_sample(session, &token));
    require(runnel_session_feed(session, &token, 1, nullptr, nullptr));
    const std::vector<float> logits = logits_of(session, n_vocab);
    result.tokens.push_back(token);
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  }
  return result;
}

inline std::vector<std::int32_t> visible(const runnel_session* session) {
  std::size_t n = 0;
  runnel_session_visible(session, nullptr, 0, &n);
  std::vector<std::int32_t> tokens(n);
  require(runnel_session_visible(session, tokens.data(), n, &n));
  return tokens;
}

}  // namespace runnel::test
