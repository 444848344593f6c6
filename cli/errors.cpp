#include "errors.h"

#include <string_view>

namespace cli {
namespace {

// What a program does about it, and what one does at the command.
struct Remedy {
  std::string_view in_a_program, at_the_command;
};
constexpr Remedy remedies[] = {
    {"set \"template\" to one of: ", "give one with --template NAME: "},
    {"a larger window, or let them stream through it (overflow stream)",
     "a larger --window, or let them stream through it (--overflow stream)"},
};

}  // namespace

std::string last_error() {
  std::string message = runnel_last_error();
  for (const Remedy& remedy : remedies) {
    const std::size_t at = message.find(remedy.in_a_program);
    if (at != std::string::npos) message.replace(at, remedy.in_a_program.size(), remedy.at_the_command);
  }
  return message;
}

void check(runnel_status status) {
  if (status == RUNNEL_STOPPED) throw Interrupted{};
  if (status == RUNNEL_UNSUPPORTED) throw Unsupported(last_error());
  if (status != RUNNEL_OK) throw Failure(last_error());
}

}  // namespace cli
