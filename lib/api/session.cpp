// The C surface: streams of tokens.
#include <limits>

#include "lib/api/call.h"
#include "lib/api/callback_observer.h"
#include "lib/linear/int8_error.h"
#include "lib/token/tokenizer.h"

using namespace runnel;

runnel_status runnel_session_open(const runnel_model* model, const runnel_config* config,
                                  runnel_session** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    RUNNEL_REQUIRE(model);
    RUNNEL_ASSIGN(auto session, Session::open(model->model, settings_of(config)));
    *out = new runnel_session{.session = std::move(session), .text = {}};
    return {};
  });
}

void runnel_session_close(runnel_session* session) {
  const NotCancelled until_done;  // its threads are waited for
  delete session;
}

runnel_status runnel_session_reset(runnel_session* session) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_system"));
    session->session->reset();
    return {};
  });
}

runnel_status runnel_session_pin(runnel_session* session, int64_t n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_pin"));
    return session->session->pin(n_tokens);
  });
}

runnel_status runnel_session_mark_turn(runnel_session* session) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_say"));
    session->session->mark_turn(session->session->position());
    return {};
  });
}

runnel_status runnel_session_rewind(runnel_session* session, int64_t position) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_undo"));
    const InCall in_call(*session->use);
    return session->session->rewind(position);
  });
}

runnel_status runnel_session_visible(const runnel_session* session, int32_t* tokens, size_t capacity,
                                     size_t* n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE_ALL(tokens, capacity);
    RUNNEL_REQUIRE(n_tokens);
    const std::vector<Token> visible = session->session->visible();
    return copy_out(visible.data(), visible.size(), tokens, capacity, n_tokens);
  });
}

runnel_status runnel_session_set(runnel_session* session, const char* name, const char* value) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(name);
    RUNNEL_REQUIRE(value);
    return session->session->set(name, value);
  });
}

const char* runnel_session_get(const runnel_session* session, const char* name) {
  const char* text = nullptr;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(name);
    RUNNEL_ASSIGN(session->text, session->session->settings().get(name));
    text = session->text.c_str();
    return {};
  });
  return status == RUNNEL_OK ? text : nullptr;
}

runnel_status runnel_session_feed(runnel_session* session, const int32_t* tokens, size_t n_tokens,
                                  runnel_logits_fn on_logits, void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE_ALL(tokens, n_tokens);
    RUNNEL_TRY(refuse_in_callback(*session->use));
    const InCall in_call(*session->use);
    session->session->begin_call();
    return session->session->feed({tokens, n_tokens}, on_logits, user);
  });
}

runnel_status runnel_session_feed_text(runnel_session* session, const char* text, size_t n_bytes,
                                       unsigned flags) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    RUNNEL_TRY(refuse_in_callback(*session->use));
    const InCall in_call(*session->use);
    session->session->begin_call();
    RUNNEL_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(session->session->model()));
    std::vector<Token> ids;
    RUNNEL_TRY(tokenizer->encode(view(text, n_bytes), flags, ids));
    return session->session->feed(ids, nullptr, nullptr);
  });
}

const float* runnel_session_logits(const runnel_session* session) {
  return session ? session->session->logits() : nullptr;
}

runnel_status runnel_session_sample(runnel_session* session, int32_t* token) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(token);
    RUNNEL_ASSIGN(*token, session->session->sample());
    return {};
  });
}

runnel_status runnel_session_generate(runnel_session* session, int64_t n_tokens, runnel_text_fn on_text,
                                      void* user, runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    return generate_in_call(*session->use, finish, [&] {
      session->session->begin_call();
      return session->session->generate(n_tokens, on_text, user);
    });
  });
}

runnel_status runnel_session_on_progress(runnel_session* session, runnel_progress_fn on_progress,
                                         void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    session->session->set_progress(on_progress, user);
    return {};
  });
}

void runnel_session_stop(runnel_session* session) {
  if (session) session->session->stop();
}

int64_t runnel_session_stat(const runnel_session* session, runnel_stat stat) {
  if (!session) return 0;
  const Session& s = *session->session;
  const KvCache& cache = s.cache();
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

runnel_status runnel_session_save(const runnel_session* session, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(path);
    return session->session->save(path);
  });
}

runnel_status runnel_session_load(runnel_session* session, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    RUNNEL_REQUIRE(path);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_load"));
    return session->session->load(path);
  });
}

// ---- looking inside

runnel_status runnel_session_observe(runnel_session* session, runnel_rows_fn on_rows, runnel_mass_fn on_mass,
                                     void* user) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(session);
    session->session->set_observer(
        on_rows || on_mass ? std::make_unique<CallbackObserver>(on_rows, on_mass, user) : nullptr);
    return {};
  });
}

double runnel_int8_error(const float* values, size_t n, int carry) {
  double error = 0;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_ALL(values, n);
    error = n == 0 ? 0 : int8_error(values, n, carry != 0);
    return {};
  });
  return status == RUNNEL_OK ? error : std::numeric_limits<double>::quiet_NaN();
}
