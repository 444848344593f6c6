// The C surface. Every call checks its arguments, and nothing that is thrown inside gets out.
#include <cstring>
#include <exception>
#include <limits>
#include <new>

#include "lib/blas.h"
#include "lib/callback_observer.h"
#include "lib/chat/chat.h"
#include "lib/int8_error.h"
#include "lib/machine.h"
#include "lib/quantize/pack_in_memory.h"
#include "lib/quantize/quantize.h"
#include "lib/session.h"
#include "lib/speed_limits.h"
#include "lib/synth/synthetic_file.h"
#include "runnel/runnel.h"

struct runnel_config {
  runnel::Settings settings;
  std::string text;  // of the last runnel_config_get
};

struct runnel_model {
  std::shared_ptr<const runnel::Model> model;
};

struct runnel_session {
  std::unique_ptr<runnel::Session> session;
  mutable std::string text;  // of the last runnel_session_get
};

struct runnel_chat {
  runnel::Chat chat;
};

namespace {

using runnel::Error;
using runnel::error;
using runnel::Result;
using runnel::Settings;

thread_local std::string last_error;

runnel_status fail(const Error& e) noexcept {
  try {
    last_error = e.message;
  } catch (...) {
    last_error.clear();
  }
  return e.status;
}

// Runs what a call does and turns errors and exceptions into a status.
template <class Work>
runnel_status guard(Work&& work) noexcept {
  try {
    if (Result<void> result = work(); !result) return fail(result.error());
    return RUNNEL_OK;
  } catch (const std::bad_alloc&) {
    return fail({RUNNEL_NO_MEMORY, "not enough memory"});
  } catch (const std::length_error&) {
    return fail({RUNNEL_NO_MEMORY, "not enough memory: a size is beyond what can be addressed"});
  } catch (const std::exception& e) {
    return fail({RUNNEL_INTERNAL, e.what()});
  } catch (...) {
    return fail({RUNNEL_INTERNAL, "an unknown exception"});
  }
}

Error null_argument(const char* name) { return error(RUNNEL_BAD_ARGUMENT, "%s must not be null", name); }

#define RUNNEL_REQUIRE(pointer) \
  if (!(pointer)) return null_argument(#pointer)

const Settings& settings_of(const runnel_config* config) {
  static const Settings defaults;
  return config ? config->settings : defaults;
}

std::string_view view(const char* text, size_t n_bytes) {
  return n_bytes == 0 ? "" : std::string_view(text, n_bytes);
}

}  // namespace

const char* runnel_status_name(runnel_status status) {
  switch (status) {
    case RUNNEL_OK:
      return "ok";
    case RUNNEL_BAD_ARGUMENT:
      return "bad argument";
    case RUNNEL_IO:
      return "input or output failed";
    case RUNNEL_BAD_FILE:
      return "bad file";
    case RUNNEL_UNSUPPORTED:
      return "unsupported";
    case RUNNEL_NO_MEMORY:
      return "not enough memory";
    case RUNNEL_BUFFER_TOO_SMALL:
      return "buffer too small";
    case RUNNEL_STOPPED:
      return "stopped";
    case RUNNEL_INTERNAL:
      return "internal error";
  }
  return "unknown status";
}

const char* runnel_last_error(void) { return last_error.c_str(); }
const char* runnel_version(void) { return RUNNEL_VERSION; }

// ---- the machine

const char* runnel_isa(void) {
  const runnel::simd::IsaRow* row = nullptr;
  runnel::simd::select(nullptr, runnel::simd::cpu_features(), &row);
  return row->name;
}

const char* runnel_isa_available(size_t i) {
  const runnel::simd::IsaRows rows = runnel::simd::isa_rows();
  for (size_t r = 0; r < rows.size; ++r) {
    const runnel::simd::IsaRow& row = rows.begin[r];
    if ((row.needs & ~runnel::simd::cpu_features()) == 0 && i-- == 0) return row.name;
  }
  return nullptr;
}

const char* runnel_blas_core(void) { return runnel::blas_core(); }
const char* runnel_blas_advice(void) { return runnel::blas_advice().c_str(); }
int32_t runnel_default_threads(void) { return static_cast<int32_t>(runnel::performance_cores()); }

// ---- config

runnel_status runnel_config_new(runnel_config** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(out);
    *out = new runnel_config();
    return {};
  });
}

void runnel_config_free(runnel_config* config) { delete config; }

runnel_status runnel_config_set(runnel_config* config, const char* name, const char* value) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(config);
    RUNNEL_REQUIRE(name);
    RUNNEL_REQUIRE(value);
    return config->settings.set(name, value);
  });
}

const char* runnel_config_get(const runnel_config* config, const char* name) {
  const char* text = nullptr;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(config);
    RUNNEL_REQUIRE(name);
    RUNNEL_ASSIGN(std::string value, config->settings.get(name));
    auto* self = const_cast<runnel_config*>(config);  // the text is a cache, of no meaning to the config
    self->text = std::move(value);
    text = self->text.c_str();
    return {};
  });
  return status == RUNNEL_OK ? text : nullptr;
}

const char* runnel_setting_name(size_t i) {
  return i < runnel::n_settings() ? runnel::setting_info(i).name : nullptr;
}
const char* runnel_setting_help(size_t i) {
  return i < runnel::n_settings() ? runnel::setting_info(i).help : nullptr;
}

// ---- model

namespace {

std::function<bool(double)> watcher(runnel_progress_fn on_progress, void* user) {
  if (!on_progress) return {};
  return [=](double fraction) { return on_progress(user, fraction) == 0; };
}

// The model as the settings want it run: packed in memory where they ask for int8 and its file is not.
Result<std::shared_ptr<const runnel::Model>> prepared(std::shared_ptr<const runnel::Model> model,
                                                      const runnel::Settings& settings,
                                                      std::function<bool(double)> on_progress) {
  if (!settings.int8 || !model->has_weights() || model->is_packed()) return model;
  return runnel::pack_in_memory(*model, settings, std::move(on_progress));
}

}  // namespace

runnel_status runnel_model_open(const char* path, const runnel_config* config, runnel_model** out) {
  return runnel_model_open_watched(path, config, nullptr, nullptr, out);
}

runnel_status runnel_model_open_watched(const char* path, const runnel_config* config,
                                        runnel_progress_fn on_progress, void* user, runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(path);
    RUNNEL_REQUIRE(out);
    const runnel::Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto file, runnel::Model::open(path, settings));
    RUNNEL_ASSIGN(auto model, prepared(std::move(file), settings, watcher(on_progress, user)));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

runnel_status runnel_model_open_memory(const void* data, size_t n_bytes, const runnel_config* config,
                                       runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(data);
    RUNNEL_REQUIRE(out);
    if (reinterpret_cast<uintptr_t>(data) % 32 != 0)
      return error(RUNNEL_BAD_ARGUMENT, "data is not aligned to 32 bytes");
    const runnel::Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto file,
                  runnel::Model::from_memory({static_cast<const std::byte*>(data), n_bytes}, settings));
    RUNNEL_ASSIGN(auto model, prepared(std::move(file), settings, {}));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

void runnel_model_close(runnel_model* model) { delete model; }

int64_t runnel_model_fact(const runnel_model* handle, runnel_fact fact) {
  if (!handle) return 0;
  const runnel::Model& m = *handle->model;
  const runnel::Shape& s = m.shape();
  const runnel::Tokenizer* tokenizer = m.tokenizer();
  const auto number = [](size_t n) { return static_cast<int64_t>(n); };
  switch (fact) {
    case RUNNEL_N_VOCAB:
      return m.has_weights() ? number(s.n_vocab) : tokenizer ? number(tokenizer->n_vocab()) : 0;
    case RUNNEL_N_EMBD:
      return number(s.n_embd);
    case RUNNEL_N_LAYER:
      return number(s.n_layer);
    case RUNNEL_N_HEAD:
      return number(s.n_head);
    case RUNNEL_N_HEAD_KV:
      return number(s.n_head_kv);
    case RUNNEL_HEAD_DIM:
      return number(s.head_dim);
    case RUNNEL_N_FF:
      return number(s.n_ff);
    case RUNNEL_N_CTX_TRAIN:
      return number(s.n_ctx_train);
    case RUNNEL_N_EXPERT:
      return number(s.n_expert);
    case RUNNEL_N_EXPERT_USED:
      return number(s.n_expert_used);
    case RUNNEL_NATIVE_WINDOW:
      return number(s.native_window);
    case RUNNEL_N_PARAMETERS:
      return static_cast<int64_t>(m.n_parameters());
    case RUNNEL_WEIGHT_BYTES: {
      uint64_t n = 0;
      for (const runnel::GgufTensor& t : m.file().tensors()) n += t.n_bytes;
      return static_cast<int64_t>(n);
    }
    case RUNNEL_HAS_WEIGHTS:
      return m.has_weights();
    case RUNNEL_HAS_TOKENIZER:
      return tokenizer != nullptr;
    case RUNNEL_CAN_STREAM:
      return m.can_stream();
    case RUNNEL_TOKEN_BOS:
      return tokenizer ? tokenizer->bos() : -1;
    case RUNNEL_TOKEN_EOS:
      return tokenizer ? tokenizer->eos() : -1;
    case RUNNEL_TOKEN_EOT:
      return tokenizer ? tokenizer->eot() : -1;
    case RUNNEL_ADDS_BOS:
      return tokenizer && tokenizer->adds_bos();
    case RUNNEL_DECODE_BYTES:
      return m.has_weights() ? static_cast<int64_t>(runnel::decode_bytes(m)) : 0;
    case RUNNEL_PROMPT_MULTIPLY_ADDS:
      return m.has_weights() ? static_cast<int64_t>(runnel::prompt_multiply_adds(m)) : 0;
  }
  return 0;
}

const char* runnel_model_architecture(const runnel_model* model) {
  return model ? model->model->architecture().c_str() : "";
}

const char* runnel_model_tokenizer(const runnel_model* model) {
  return model ? model->model->tokenizer_kind().c_str() : "";
}

const char* runnel_model_meta_key(const runnel_model* model, size_t i) {
  return model && i < model->model->n_meta() ? model->model->meta_key(i).c_str() : nullptr;
}

const char* runnel_model_meta_value(const runnel_model* model, size_t i) {
  return model && i < model->model->n_meta() ? model->model->meta_text(i).c_str() : nullptr;
}

const char* runnel_model_tensor_name(const runnel_model* model, size_t i) {
  return model && i < model->model->file().tensors().size() ? model->model->tensor_name(i).c_str() : nullptr;
}

const char* runnel_model_tensor_type(const runnel_model* model, size_t i) {
  return model && i < model->model->file().tensors().size() ? model->model->file().tensors()[i].type->name
                                                            : nullptr;
}

int64_t runnel_model_tensor_bytes(const runnel_model* model, size_t i) {
  if (!model || i >= model->model->file().tensors().size()) return 0;
  return static_cast<int64_t>(model->model->file().tensors()[i].n_bytes);
}

int64_t runnel_model_tensor_dim(const runnel_model* model, size_t i, size_t dim) {
  if (!model || i >= model->model->file().tensors().size()) return 0;
  const runnel::GgufTensor& tensor = model->model->file().tensors()[i];
  return dim < tensor.dims.size() ? static_cast<int64_t>(tensor.dims[dim]) : 1;
}

runnel_status runnel_model_session_bytes(const runnel_model* handle, const runnel_config* config,
                                         int64_t* cache_bytes, int64_t* scratch_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(cache_bytes);
    RUNNEL_REQUIRE(scratch_bytes);
    const runnel::Model& model = *handle->model;
    if (!model.has_weights()) return error(RUNNEL_UNSUPPORTED, "the model was opened without weights");
    const Settings& settings = settings_of(config);
    RUNNEL_ASSIGN(const runnel::CacheSize size, runnel::cache_size(model, settings));
    *cache_bytes = runnel::KvCache::n_bytes(model, size, settings.cache);
    *scratch_bytes = runnel::Forward::n_bytes(model, size, runnel::thread_count(settings));
    return {};
  });
}

// ---- tokens

namespace {

Result<const runnel::Tokenizer*> tokenizer_of(const runnel_model* model) {
  if (const runnel::Tokenizer* tokenizer = model->model->tokenizer()) return tokenizer;
  return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer; give token ids instead of text",
               model->model->file().name().c_str());
}

template <class T>
Result<void> copy_out(const T* data, size_t n, T* out, size_t capacity, size_t* n_out) {
  *n_out = n;
  if (n > capacity)
    return error(RUNNEL_BUFFER_TOO_SMALL, "the result has %zu elements, the buffer room for %zu", n,
                 capacity);
  if (n > 0) std::memcpy(out, data, n * sizeof(T));
  return {};
}

}  // namespace

runnel_status runnel_tokenize(const runnel_model* model, const char* text, size_t n_bytes, unsigned flags,
                              int32_t* tokens, size_t capacity, size_t* n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(text || n_bytes == 0);
    RUNNEL_REQUIRE(tokens || capacity == 0);
    RUNNEL_REQUIRE(n_tokens);
    RUNNEL_ASSIGN(const runnel::Tokenizer* tokenizer, tokenizer_of(model));
    std::vector<runnel::Token> ids;
    RUNNEL_TRY(tokenizer->encode(view(text, n_bytes), flags, ids));
    return copy_out(ids.data(), ids.size(), tokens, capacity, n_tokens);
  });
}

runnel_status runnel_detokenize(const runnel_model* model, const int32_t* tokens, size_t n_tokens,
                                int special, char* text, size_t capacity, size_t* n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(tokens || n_tokens == 0);
    RUNNEL_REQUIRE(text || capacity == 0);
    RUNNEL_REQUIRE(n_bytes);
    RUNNEL_ASSIGN(const runnel::Tokenizer* tokenizer, tokenizer_of(model));
    const std::string decoded = tokenizer->decode_all(tokens, n_tokens, special != 0);
    return copy_out(decoded.data(), decoded.size(), text, capacity, n_bytes);
  });
}

// ---- session

runnel_status runnel_session_open(const runnel_model* model, const runnel_config* config,
                                  runnel_session** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(out);
    RUNNEL_ASSIGN(auto session, runnel::Session::open(model->model, settings_of(config)));
    *out = new runnel_session{std::move(session), {}};
    return {};
  });
}

void runnel_session_close(runnel_session* session) { delete session; }

runnel_status runnel_session_reset(runnel_session* handle) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    handle->session->reset();
    return {};
  });
}

runnel_status runnel_session_pin(runnel_session* handle, int64_t n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    return handle->session->pin(n_tokens);
  });
}

runnel_status runnel_session_mark_turn(runnel_session* handle) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    handle->session->mark_turn(handle->session->position());
    return {};
  });
}

runnel_status runnel_session_rewind(runnel_session* handle, int64_t position) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    return handle->session->rewind(position);
  });
}

runnel_status runnel_session_visible(const runnel_session* handle, int32_t* tokens, size_t capacity,
                                     size_t* n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(tokens || capacity == 0);
    RUNNEL_REQUIRE(n_tokens);
    const std::vector<runnel::Token> visible = handle->session->visible();
    return copy_out(visible.data(), visible.size(), tokens, capacity, n_tokens);
  });
}

runnel_status runnel_session_set(runnel_session* handle, const char* name, const char* value) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(name);
    RUNNEL_REQUIRE(value);
    return handle->session->set(name, value);
  });
}

const char* runnel_session_get(const runnel_session* handle, const char* name) {
  const char* text = nullptr;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(name);
    RUNNEL_ASSIGN(handle->text, handle->session->settings().get(name));
    text = handle->text.c_str();
    return {};
  });
  return status == RUNNEL_OK ? text : nullptr;
}

runnel_status runnel_session_feed(runnel_session* handle, const int32_t* tokens, size_t n_tokens,
                                  runnel_logits_fn on_logits, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(tokens || n_tokens == 0);
    return handle->session->feed({tokens, n_tokens}, on_logits, user);
  });
}

runnel_status runnel_session_feed_text(runnel_session* handle, const char* text, size_t n_bytes,
                                       unsigned flags) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(text || n_bytes == 0);
    const runnel::Tokenizer* tokenizer = handle->session->model().tokenizer();
    if (!tokenizer)
      return error(RUNNEL_UNSUPPORTED, "the file holds no tokenizer; feed token ids instead of text");
    std::vector<runnel::Token> ids;
    RUNNEL_TRY(tokenizer->encode(view(text, n_bytes), flags, ids));
    return handle->session->feed(ids, nullptr, nullptr);
  });
}

const float* runnel_session_logits(const runnel_session* handle) {
  return handle ? handle->session->logits() : nullptr;
}

runnel_status runnel_session_sample(runnel_session* handle, int32_t* token) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(token);
    RUNNEL_ASSIGN(*token, handle->session->sample());
    return {};
  });
}

runnel_status runnel_session_generate(runnel_session* handle, int64_t n_tokens, runnel_text_fn on_text,
                                      void* user, runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_ASSIGN(const runnel_finish how, handle->session->generate(n_tokens, on_text, user));
    if (finish) *finish = how;
    return {};
  });
}

void runnel_session_stop(runnel_session* handle) {
  if (handle) handle->session->stop();
}

int64_t runnel_session_stat(const runnel_session* handle, runnel_stat stat) {
  if (!handle) return 0;
  const runnel::Session& s = *handle->session;
  const runnel::KvCache& cache = s.cache();
  switch (stat) {
    case RUNNEL_STAT_POSITION:
      return s.position();
    case RUNNEL_STAT_CACHE_USED:
      return cache.n_seen();
    case RUNNEL_STAT_CACHE_SIZE:
      return cache.size().n_prefix + cache.size().window;
    case RUNNEL_STAT_PREFIX:
      return cache.size().n_prefix;
    case RUNNEL_STAT_EVICTED:
      return s.position() - cache.n_seen();
    case RUNNEL_STAT_CACHE_BYTES:
      return cache.n_bytes();
    case RUNNEL_STAT_SCRATCH_BYTES:
      return s.scratch_bytes();
    case RUNNEL_STAT_FED_TOKENS:
      return s.stats().fed_tokens;
    case RUNNEL_STAT_FED_US:
      return s.stats().fed_us;
    case RUNNEL_STAT_GENERATED_TOKENS:
      return s.stats().generated_tokens;
    case RUNNEL_STAT_GENERATED_US:
      return s.stats().generated_us;
    case RUNNEL_STAT_REREAD_TOKENS:
      return s.stats().reread_tokens;
    case RUNNEL_STAT_UNSEEN:
      return s.stats().unseen_tokens;
    case RUNNEL_STAT_TURNS:
      return s.n_turns_seen();
    case RUNNEL_STAT_HELD_FROM:
      return s.held_from();
  }
  return 0;
}

// ---- sessions that come back

runnel_status runnel_session_save(const runnel_session* handle, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(path);
    return handle->session->save(path);
  });
}

runnel_status runnel_session_load(runnel_session* handle, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(path);
    return handle->session->load(path);
  });
}

// ---- looking inside

runnel_status runnel_session_observe(runnel_session* session, runnel_rows_fn on_rows, runnel_mass_fn on_mass,
                                     void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    session->session->set_observer(
        on_rows || on_mass ? std::make_unique<runnel::CallbackObserver>(on_rows, on_mass, user) : nullptr);
    return {};
  });
}

double runnel_int8_error(const float* values, size_t n, int carry) {
  double error = 0;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(values || n == 0);
    error = n == 0 ? 0 : runnel::int8_error(values, n, carry != 0);
    return {};
  });
  return status == RUNNEL_OK ? error : std::numeric_limits<double>::quiet_NaN();
}

// ---- chat

runnel_status runnel_chat_open(runnel_session* session, const runnel_config* config, runnel_chat** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(out);
    RUNNEL_ASSIGN(runnel::Chat chat, runnel::Chat::open(*session->session, settings_of(config)));
    *out = new runnel_chat{std::move(chat)};
    return {};
  });
}

void runnel_chat_close(runnel_chat* chat) { delete chat; }

const char* runnel_chat_form_name(size_t i) { return runnel::chat_form_name(i); }
const char* runnel_chat_form(const runnel_chat* handle) { return handle ? handle->chat.form_name() : ""; }

runnel_status runnel_chat_system(runnel_chat* handle, const char* text, size_t n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(text || n_bytes == 0);
    return handle->chat.start(view(text, n_bytes));
  });
}

const char* runnel_chat_system_prompt(const runnel_chat* handle) {
  return handle ? handle->chat.system_prompt().c_str() : "";
}

runnel_status runnel_chat_pin(runnel_chat* handle, const char* text, size_t n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(text || n_bytes == 0);
    return handle->chat.pin(view(text, n_bytes));
  });
}

runnel_status runnel_chat_undo(runnel_chat* handle) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    return handle->chat.undo();
  });
}

runnel_status runnel_chat_say(runnel_chat* handle, const char* text, size_t n_bytes, int64_t n_tokens,
                              runnel_text_fn on_text, void* user, runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(text || n_bytes == 0);
    RUNNEL_ASSIGN(const runnel_finish how, handle->chat.say(view(text, n_bytes), n_tokens, on_text, user));
    if (finish) *finish = how;
    return {};
  });
}

runnel_status runnel_chat_again(runnel_chat* handle, int64_t n_tokens, runnel_text_fn on_text, void* user,
                                runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_ASSIGN(const runnel_finish how, handle->chat.again(n_tokens, on_text, user));
    if (finish) *finish = how;
    return {};
  });
}

runnel_status runnel_chat_continue(runnel_chat* handle, int64_t n_tokens, runnel_text_fn on_text, void* user,
                                   runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_ASSIGN(const runnel_finish how, handle->chat.go_on(n_tokens, on_text, user));
    if (finish) *finish = how;
    return {};
  });
}

const char* runnel_chat_message(const runnel_chat* handle, size_t i, runnel_speaker* speaker,
                                size_t* n_bytes) {
  if (!handle) return nullptr;
  const auto messages = handle->chat.transcript().messages();
  if (i >= messages.size()) return nullptr;
  const runnel::Message& message = messages[messages.size() - 1 - i];
  if (speaker) *speaker = message.speaker;
  if (n_bytes) *n_bytes = message.text.size();
  return message.text.c_str();
}

runnel_status runnel_chat_save(const runnel_chat* handle, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(path);
    return handle->chat.save(path);
  });
}

runnel_status runnel_chat_load(runnel_chat* handle, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(handle);
    RUNNEL_REQUIRE(path);
    return handle->chat.load(path);
  });
}

// ---- quantising

runnel_status runnel_quantize(const char* in_path, const char* out_path, const char* type,
                              const runnel_config* config, const char* calibration, size_t n_bytes,
                              runnel_progress_fn on_progress, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(in_path);
    RUNNEL_REQUIRE(out_path);
    RUNNEL_REQUIRE(type);
    RUNNEL_REQUIRE(calibration || n_bytes == 0);
    runnel::Quantization how{type, view(calibration, n_bytes), {}};
    how.on_progress = watcher(on_progress, user);
    return runnel::quantize(in_path, out_path, how, settings_of(config));
  });
}

// ---- synthetic models

namespace {

Result<runnel::Synthesis> synthesis_of(const char* shape, const char* type, uint64_t seed,
                                       runnel_progress_fn on_progress, void* user) {
  RUNNEL_REQUIRE(shape);
  RUNNEL_REQUIRE(type);
  RUNNEL_ASSIGN(runnel::Synthesis synthesis, runnel::find_synthesis(shape, type, seed));
  synthesis.on_progress = watcher(on_progress, user);
  return synthesis;
}

}  // namespace

const char* runnel_shape_name(size_t i) {
  return i < runnel::n_synth_shapes() ? runnel::synth_shape(i).name : nullptr;
}

runnel_status runnel_model_synthetic(const char* shape, const char* type, uint64_t seed,
                                     const runnel_config* config, runnel_progress_fn on_progress, void* user,
                                     runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(out);
    RUNNEL_ASSIGN(const auto synthesis, synthesis_of(shape, type, seed, on_progress, user));
    const runnel::Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto made, runnel::make_synthetic(synthesis, settings));
    RUNNEL_ASSIGN(auto model, prepared(std::move(made), settings, watcher(on_progress, user)));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

runnel_status runnel_synthesize(const char* shape, const char* type, uint64_t seed, const char* path,
                                const runnel_config* config, runnel_progress_fn on_progress, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(path);
    RUNNEL_ASSIGN(const auto synthesis, synthesis_of(shape, type, seed, on_progress, user));
    return runnel::write_synthetic(synthesis, path, settings_of(config));
  });
}

// ---- limits

runnel_status runnel_measure_read(const runnel_model* model, const runnel_config* config,
                                  double* bytes_per_second) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(bytes_per_second);
    RUNNEL_ASSIGN(*bytes_per_second, runnel::measure_read(*model->model, settings_of(config)));
    return {};
  });
}

runnel_status runnel_measure_peak(runnel_arithmetic arithmetic, const runnel_config* config,
                                  double* multiply_adds_per_second) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(multiply_adds_per_second);
    if (arithmetic != RUNNEL_F32 && arithmetic != RUNNEL_INT8)
      return error(RUNNEL_BAD_ARGUMENT, "arithmetic is %d, expected RUNNEL_F32 or RUNNEL_INT8",
                   static_cast<int>(arithmetic));
    const auto kind = arithmetic == RUNNEL_F32 ? runnel::Arithmetic::f32 : runnel::Arithmetic::i8;
    RUNNEL_ASSIGN(*multiply_adds_per_second, runnel::measure_peak(kind, settings_of(config)));
    return {};
  });
}
