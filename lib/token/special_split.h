// Cuts a text at the special tokens spelled in it.
#pragma once
#include <string_view>
#include <vector>

#include "lib/token/vocab.h"

namespace runnel {

// A special token, or (token < 0) a stretch of ordinary text, never empty.
struct Fragment {
  Token token;
  std::string_view text;
};

// User-defined tokens are always cut out; control and unknown ones only when `parse_special`. Longer tokens
// come first wherever they stand in the text, as in llama.cpp. Fragments are views into `text`, in order.
std::vector<Fragment> split_at_specials(std::string_view text, const Vocab& vocab, bool parse_special);

}  // namespace runnel
