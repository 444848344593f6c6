// Text of unknown origin (a file's, an argument), fit for a message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace runnel {

// Control characters and invalid UTF-8 as \n or \xNN, shortened with "..." to about max_chars bytes.
std::string printable(std::string_view text, std::size_t max_chars = 80);

}  // namespace runnel
