#include "library.h"

#include <exception>
#include <limits>

#include "console.h"
#include "errors.h"
#include "interrupt.h"
#include "progress.h"
#include "settings.h"

namespace cli {

Config new_config() {
  runnel_config* config = nullptr;
  check(runnel_config_new(&config));
  return Config(config);
}

Model open_model(const std::string& path, const runnel_config* config) {
  runnel_model* model = nullptr;
  CallProgress progress("packing to int8");
  check_settings(runnel_model_open_watched(path.c_str(), config, CallProgress::call, &progress, &model));
  Model opened(model);
  if (interrupted()) throw Interrupted{};
  return opened;
}

Model open_vocabulary(const std::string& path) {
  const Config config = new_config();
  set_setting(config.get(), "vocab_only", "true");
  return open_model(path, config.get());
}

Session open_session(const runnel_model* model, const runnel_config* config) {
  runnel_session* session = nullptr;
  check_settings(runnel_session_open(model, config, &session));
  return Session(session);
}

Chat open_chat(runnel_session* session, const runnel_config* config) {
  runnel_chat* chat = nullptr;
  check_settings(runnel_chat_open(session, config, &chat));
  return Chat(chat);
}

std::vector<std::int32_t> tokenize(const runnel_model* model, std::string_view text, unsigned flags) {
  std::vector<std::int32_t> tokens(text.size() + 2);  // a token is mostly a byte or more; then BOS and EOS
  std::size_t n_tokens = 0;
  runnel_status status =
      runnel_tokenize(model, text.data(), text.size(), flags, tokens.data(), tokens.size(), &n_tokens);
  if (status == RUNNEL_BUFFER_TOO_SMALL) {
    tokens.resize(n_tokens);
    status = runnel_tokenize(model, text.data(), text.size(), flags, tokens.data(), tokens.size(), &n_tokens);
  }
  check(status);
  tokens.resize(n_tokens);
  return tokens;
}

namespace {

std::string detokenize(const runnel_model* model, const std::vector<std::int32_t>& tokens) {
  std::string text(64, '\0');
  std::size_t n_bytes = 0;
  const auto read = [&] {
    return runnel_detokenize(model, tokens.data(), tokens.size(), 1, text.data(), text.size(), &n_bytes);
  };
  runnel_status status = read();
  if (status == RUNNEL_BUFFER_TOO_SMALL) {
    text.resize(n_bytes);
    status = read();
  }
  check(status);
  text.resize(n_bytes);
  return text;
}

}  // namespace

// What it adds to a text: at the beginning of one SentencePiece's blank is left out.
std::string token_text(const runnel_model* model, std::int32_t token) {
  return detokenize(model, {token, token}).substr(detokenize(model, {token}).size());
}

std::string isa_name(const std::string& setting) { return setting.empty() ? runnel_isa() : setting; }

std::int64_t most_seen(const runnel_model* model) {
  if (runnel_model_fact(model, RUNNEL_CAN_STREAM) != 0) return std::numeric_limits<std::int64_t>::max();
  return runnel_model_fact(model, RUNNEL_N_CTX_TRAIN);
}

void expect_seen(const char* option, std::int64_t value, std::int64_t limit, const runnel_model* model) {
  if (value <= limit) return;
  throw UsageError(std::string(option) + ": expected " + std::to_string(limit) +
                   " at most, for the model has learned positions for " + counted(most_seen(model), "token") +
                   ", got " + std::to_string(value));
}

std::size_t vocabulary_size(const runnel_model* model) {
  return static_cast<std::size_t>(runnel_model_fact(model, RUNNEL_N_VOCAB));
}

std::int32_t bos_of(const runnel_model* model) {
  if (runnel_model_fact(model, RUNNEL_ADDS_BOS) == 0) return -1;
  return static_cast<std::int32_t>(runnel_model_fact(model, RUNNEL_TOKEN_BOS));
}

namespace {

struct TextCall {
  const OnText& on_text;
  std::exception_ptr thrown;

  static int call(void* user, const char* text, std::size_t n_bytes, std::int32_t) {
    auto* self = static_cast<TextCall*>(user);
    try {
      return self->on_text({text, n_bytes}) ? 0 : 1;
    } catch (...) {
      self->thrown = std::current_exception();
      return 1;
    }
  }
};

struct LogitsCall {
  const OnLogits& on_logits;
  std::exception_ptr thrown;

  static int call(void* user, std::int64_t, const float* logits) {
    auto* self = static_cast<LogitsCall*>(user);
    if (interrupted()) return 1;
    try {
      self->on_logits(logits);
      return 0;
    } catch (...) {
      self->thrown = std::current_exception();
      return 1;
    }
  }
};

}  // namespace

runnel_finish generating(
    const OnText& on_text,
    const std::function<runnel_status(runnel_text_fn, void* user, runnel_finish* finish)>& body) {
  TextCall call{on_text, nullptr};
  runnel_finish finish = RUNNEL_FINISH_LENGTH;
  const runnel_status status = body(TextCall::call, &call, &finish);
  if (call.thrown) std::rethrow_exception(call.thrown);
  if (status == RUNNEL_STOPPED) return RUNNEL_FINISH_STOPPED;
  check(status);
  return finish;
}

void feed(runnel_session* session, const std::int32_t* tokens, std::size_t n_tokens,
          const OnLogits& on_logits) {
  if (interrupted()) throw Interrupted{};
  LogitsCall call{on_logits, nullptr};
  const runnel_status status =
      runnel_session_feed(session, tokens, n_tokens, on_logits ? LogitsCall::call : nullptr, &call);
  if (call.thrown) std::rethrow_exception(call.thrown);
  if (interrupted()) throw Interrupted{};
  check(status);
}

const char* finish_name(runnel_finish finish) {
  switch (finish) {
    case RUNNEL_FINISH_LENGTH:
      return "length";
    case RUNNEL_FINISH_END:
      return "end";
    case RUNNEL_FINISH_STOP_TEXT:
      return "stop text";
    case RUNNEL_FINISH_STOPPED:
      return "stopped";
  }
  return "";
}

double rate(std::int64_t n_tokens, std::int64_t us) {
  return us > 0 ? 1e6 * static_cast<double>(n_tokens) / static_cast<double>(us) : 0.0;
}

std::string speed_text(const runnel_session* session, runnel_stat tokens, runnel_stat us) {
  const std::int64_t n_tokens = runnel_session_stat(session, tokens), n_us = runnel_session_stat(session, us);
  return counted(n_tokens, "token") + " in " + fixed(static_cast<double>(n_us) / 1e6, 2) + " s (" +
         rate_text(rate(n_tokens, n_us)) + " tokens/s)";
}

}  // namespace cli
