// What ends a command early, as exceptions: main() turns each into at most one line and an exit code.
#pragma once
#include <stdexcept>
#include <string>

#include "runnel/runnel.h"

namespace cli {

// Exit codes; a help page gives them too.
constexpr int exit_ok = 0;
constexpr int exit_failure = 1;
constexpr int exit_usage = 2;
constexpr int exit_interrupted = 130;  // what shells report for a program that Ctrl-C ended

// The work could not be done.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The same, as the model is one that runnel is not made for.
struct Unsupported : Failure {
  using Failure::Failure;
};

// The command line asks for something that does not exist, is out of range or does not go together.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ctrl-C.
struct Interrupted {};

// Whoever read our standard output has gone: nothing is left to do, and nothing to say.
struct ReaderGone {};

// The library's message, in which "template" and other settings are called --template, as here.
std::string last_error();

// Throws Failure, or Unsupported, with that message unless the status is RUNNEL_OK; Interrupted where Ctrl-C
// stopped the call.
void check(runnel_status status);

}  // namespace cli
