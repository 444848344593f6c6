// The C surface: how calls fail, and the version.
#include "lib/api/call.h"

#include <cstdio>

using namespace runnel;

namespace {

// Room for two paths at their longest (a file that is read and written) and for what is said about them.
thread_local char last_error[2 * 4096 + 1024];

}  // namespace

runnel_status runnel::fail(runnel_status status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

Result<void> runnel::refuse_in_callback(const SessionUse& use) {
  if (!use.is_in_call) return {};
  return error(RUNNEL_BAD_ARGUMENT, "a callback cannot change the session whose call it is part of");
}

Result<void> runnel::refuse_in_chat(const SessionUse& use, const char* instead) {
  RUNNEL_TRY(refuse_in_callback(use));
  if (!use.is_in_chat) return {};
  return error(RUNNEL_BAD_ARGUMENT, "the session is in a chat, which counts on what it has read: see %s",
               instead);
}

Settings runnel::settings_of(const runnel_config* config) { return config ? config->settings : Settings(); }

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

const char* runnel_last_error(void) { return last_error; }
const char* runnel_version(void) { return RUNNEL_VERSION; }
