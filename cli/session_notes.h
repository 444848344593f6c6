// What people are told on standard error about a session: what its window does to a text, and its threads.
#pragma once
#include <cstdint>

#include "runnel/runnel.h"

namespace cli {

// Of a session that sees more tokens than its model was trained on.
void note_untrained_window(const runnel_model* model, const runnel_session* session);

// How many tokens of what was read ("prompt", "message") the window could not hold, if any.
void note_unseen(const char* what, std::int64_t n_tokens);

// How many tokens were read again, if any: that is not done in silence.
void note_reread(const runnel_model* model, std::int64_t n_tokens);

// That more threads were asked for than there are cores to run them.
void note_threads(std::int64_t n_threads);

}  // namespace cli
