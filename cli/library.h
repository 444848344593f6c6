// The C interface in C++ clothes: handles that close themselves, statuses as exceptions, callbacks that may
// throw.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/runnel.h"

namespace cli {

struct CloseHandle {
  void operator()(runnel_config* config) const { runnel_config_free(config); }
  void operator()(runnel_model* model) const { runnel_model_close(model); }
  void operator()(runnel_session* session) const { runnel_session_close(session); }
  void operator()(runnel_chat* chat) const { runnel_chat_close(chat); }
};
using Config = std::unique_ptr<runnel_config, CloseHandle>;
using Model = std::unique_ptr<runnel_model, CloseHandle>;
using Session = std::unique_ptr<runnel_session, CloseHandle>;
using Chat = std::unique_ptr<runnel_chat, CloseHandle>;

// What opens something throws UsageError where the settings do not go together, or not with the model.
Config new_config();
Model open_model(const std::string& path, const runnel_config* config);
Model open_vocabulary(const std::string& path);  // for its tokenizer alone, whatever weights it has, if any
Session open_session(const runnel_model* model, const runnel_config* config);
Chat open_chat(runnel_session* session, const runnel_config* config);

std::vector<std::int32_t> tokenize(const runnel_model* model, std::string_view text, unsigned flags);
std::string token_text(const runnel_model* model, std::int32_t token);  // special ones spelled out

std::size_t vocabulary_size(const runnel_model* model);
// Tokens that it can see at once: so many as it has learned positions for, else any number.
std::int64_t most_seen(const runnel_model* model);
// UsageError where an option's value is above `limit`, which those positions leave for it.
void expect_seen(const char* option, std::int64_t value, std::int64_t limit, const runnel_model* model);
std::int32_t bos_of(const runnel_model* model);  // that a text begins with; -1: with none

// The kernels that a setting "isa" means.
std::string isa_name(const std::string& setting);

// Called with each piece of text; false ends the generation.
using OnText = std::function<bool(std::string_view text)>;

// Runs `body`, which hands the function and the pointer it gets to one of the library's generating calls. An
// exception of on_text ends the generation and comes out here. RUNNEL_STOPPED is no error but a finish.
runnel_finish generating(
    const OnText& on_text,
    const std::function<runnel_status(runnel_text_fn, void* user, runnel_finish* finish)>& body);

// Called with the logits [n_vocab] after each token, in order.
using OnLogits = std::function<void(const float* logits)>;

// Reads tokens; with on_logits empty only the last one's logits are computed. Throws Interrupted on Ctrl-C.
void feed(runnel_session* session, const std::int32_t* tokens, std::size_t n_tokens,
          const OnLogits& on_logits = {});

// "length", "end", "stop text" or "stopped"
const char* finish_name(runnel_finish finish);

// Tokens per second; 0 when nothing was measured.
double rate(std::int64_t n_tokens, std::int64_t us);

// "12 tokens in 0.35 s (34.3 tokens/s)", by two of the session's figures.
std::string speed_text(const runnel_session* session, runnel_stat tokens, runnel_stat us);

}  // namespace cli
