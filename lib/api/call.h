// What the calls of the C surface share: their handles, and how they check arguments and fail. Nothing that
// is thrown inside gets out.
#pragma once
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/chat/chat.h"
#include "lib/model.h"
#include "lib/result.h"
#include "lib/session/session.h"
#include "lib/settings.h"
#include "lib/system/default_floats.h"
#include "lib/system/not_cancelled.h"
#include "runnel/runnel.h"

namespace runnel {

// What goes on with a session. Its handle and that of its chat share it, for the two may be closed in any
// order.
struct SessionUse {
  bool is_in_chat = false;
  bool is_in_call = false;  // one with callbacks
};

}  // namespace runnel

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
  std::shared_ptr<runnel::SessionUse> use = std::make_shared<runnel::SessionUse>();
};

struct runnel_chat {
  runnel::Chat chat;
  std::shared_ptr<runnel::SessionUse> use;
};

namespace runnel {

// Keeps the message for runnel_last_error() and returns the status. Takes no memory, for there may be none; a
// message longer than any of the library's is cut.
runnel_status fail(runnel_status status, const char* message) noexcept;

// Runs what a call does and turns errors and exceptions into a status.
template <class Work>
runnel_status guard(Work&& work) noexcept {
  const NotCancelled until_done;
  const DefaultFloats floats;
  try {
    if (Result<void> result = work(); !result)
      return fail(result.error().status, result.error().message.c_str());
    return RUNNEL_OK;
  } catch (const std::bad_alloc&) {
    return fail(RUNNEL_NO_MEMORY, "not enough memory");
  } catch (const std::length_error&) {
    return fail(RUNNEL_NO_MEMORY, "not enough memory: a size is beyond what can be addressed");
  } catch (const std::exception& e) {
    return fail(RUNNEL_INTERNAL, e.what());
  } catch (...) {
    return fail(RUNNEL_INTERNAL, "an unknown exception");
  }
}

// In a call's work: pointers that the caller has to give; the second where it says that there are some of
// them.
#define RUNNEL_REQUIRE(pointer) \
  if (!(pointer)) return runnel::error(RUNNEL_BAD_ARGUMENT, "%s must not be null", #pointer)
// For a handle, NULL until there is one.
#define RUNNEL_REQUIRE_OUT(pointer) \
  RUNNEL_REQUIRE(pointer);          \
  *(pointer) = nullptr
#define RUNNEL_REQUIRE_ALL(pointer, count)                                                       \
  if (!(pointer) && (count) != 0)                                                                \
  return runnel::error(RUNNEL_BAD_ARGUMENT, "%s must not be null: %s is %llu", #pointer, #count, \
                       static_cast<unsigned long long>(count))

// For calls that change the stream: not out of a callback of one that is amid it.
Result<void> refuse_in_callback(const SessionUse& use);
// Nor under a chat what it has read and counts on; instead: the call to take.
Result<void> refuse_in_chat(const SessionUse& use, const char* instead);

// A call with callbacks, as long as it lives.
class InCall {
 public:
  explicit InCall(SessionUse& use) : use_(use) { use_.is_in_call = true; }
  ~InCall() { use_.is_in_call = false; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  SessionUse& use_;
};

// A call that generates, whose callbacks cannot change the session.
template <class Generate>
Result<void> generate_in_call(SessionUse& use, runnel_finish* finish, Generate&& generate) {
  RUNNEL_TRY(refuse_in_callback(use));
  const InCall in_call(use);
  RUNNEL_ASSIGN(const runnel_finish how, generate());
  if (finish) *finish = how;
  return {};
}

// Null: all defaults.
Settings settings_of(const runnel_config* config);

// An error where the file has none.
Result<const Tokenizer*> tokenizer_of(const Model& model);

// text may be null where n_bytes is 0.
inline std::string_view view(const char* text, size_t n_bytes) {
  return n_bytes == 0 ? "" : std::string_view(text, n_bytes);
}

// False stops the work; empty where nobody watches.
using Watcher = std::function<bool(double)>;
inline Watcher watcher(runnel_progress_fn on_progress, void* user) {
  if (!on_progress) return {};
  return [=](double fraction) { return on_progress(user, fraction) == 0; };
}

// The results of a call into its caller's buffer, and how many there are.
template <class T>
Result<void> copy_out(const T* data, size_t n, T* out, size_t capacity, size_t* n_out) {
  *n_out = n;
  if (n > capacity)
    return error(RUNNEL_BUFFER_TOO_SMALL, "the result has %zu elements, the buffer room for %zu", n,
                 capacity);
  if (n > 0) std::memcpy(out, data, n * sizeof(T));
  return {};
}

}  // namespace runnel
