// Reads many tokens into a session, with a progress bar.
#pragma once
#include <string>
#include <vector>

#include "library.h"

namespace cli {

// Tokens of a prompt that the session takes together.
std::size_t batch_size(runnel_session* session);

// In pieces of whole batches, so that the arithmetic is that of one call. Throws Interrupted on Ctrl-C.
void feed_with_progress(runnel_session* session, const std::vector<std::int32_t>& tokens,
                        const std::string& label, const OnLogits& on_logits = {});

}  // namespace cli
