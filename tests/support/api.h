// The C API in a form that is short to use in tests.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runnel/runnel.h"

namespace runnel::test {

using Settings = std::vector<std::pair<const char*, std::string>>;

using Config = std::unique_ptr<runnel_config, decltype(&runnel_config_free)>;
using ModelHandle = std::unique_ptr<runnel_model, decltype(&runnel_model_close)>;
using SessionHandle = std::unique_ptr<runnel_session, decltype(&runnel_session_close)>;

using ChatHandle = std::unique_ptr<runnel_chat, decltype(&runnel_chat_close)>;

inline void require(runnel_status status) {
  if (status != RUNNEL_OK) throw std::runtime_error(runnel_last_error());
}

inline Config config(const Settings& settings) {
  runnel_config* c = nullptr;
  require(runnel_config_new(&c));
  Config owned(c, runnel_config_free);
  for (const auto& [name, value] : settings) require(runnel_config_set(c, name, value.c_str()));
  return owned;
}

inline ModelHandle open_model(const std::string& path, const Settings& settings = {}) {
  runnel_model* m = nullptr;
  require(runnel_model_open(path.c_str(), config(settings).get(), &m));
  return {m, runnel_model_close};
}

inline SessionHandle open_session(const runnel_model* model, const Settings& settings = {}) {
  runnel_session* s = nullptr;
  require(runnel_session_open(model, config(settings).get(), &s));
  return {s, runnel_session_close};
}

inline std::int64_t stat(const SessionHandle& session, runnel_stat which) {
  return runnel_session_stat(session.get(), which);
}

inline std::int64_t position(const SessionHandle& session) { return stat(session, RUNNEL_STAT_POSITION); }

inline ChatHandle open_chat(runnel_session* session) {
  runnel_chat* c = nullptr;
  require(runnel_chat_open(session, nullptr, &c));
  return {c, runnel_chat_close};
}

inline std::vector<std::int32_t> tokenize(const runnel_model* model, const std::string& text,
                                          unsigned flags) {
  std::size_t n = 0;
  std::vector<std::int32_t> tokens(text.size() + 16);
  require(runnel_tokenize(model, text.data(), text.size(), flags, tokens.data(), tokens.size(), &n));
  tokens.resize(n);
  return tokens;
}

// Without a vocabulary's size those of the bundled model, of which the first 3,000 are all different.
inline std::vector<std::int32_t> some_tokens(std::size_t n, std::size_t n_vocab = 3300) {
  const std::size_t first = n_vocab / 11;  // bytes and special tokens stand before it
  std::vector<std::int32_t> tokens(n);
  for (std::size_t i = 0; i < n; ++i)
    tokens[i] = static_cast<std::int32_t>(first + i * 7 % (n_vocab - first));
  return tokens;
}

inline void feed(runnel_session* session, const std::vector<std::int32_t>& tokens) {
  require(runnel_session_feed(session, tokens.data(), tokens.size(), nullptr, nullptr));
}

// Logits after each of the tokens, [n, n_vocab].
inline std::vector<float> feed_for_logits(runnel_session* session, std::size_t n_vocab,
                                          const std::vector<std::int32_t>& tokens) {
  struct Sink {
    std::vector<float> all;
    std::size_t n_vocab;
  } sink{{}, n_vocab};
  const auto on_logits = [](void* user, std::int64_t, const float* logits) {
    auto* to = static_cast<Sink*>(user);
    to->all.insert(to->all.end(), logits, logits + to->n_vocab);
    return 0;
  };
  require(runnel_session_feed(session, tokens.data(), tokens.size(), on_logits, &sink));
  return std::move(sink.all);
}

}  // namespace runnel::test
