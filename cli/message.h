// A message that is read line by line.
#pragma once
#include <string>
#include <string_view>

namespace cli {

// Adds a line to it. A line that ends in a backslash goes on in the next: the result is true then.
inline bool add_line(std::string& message, std::string_view line) {
  message += line;
  const bool goes_on = message.ends_with('\\');
  if (goes_on) message.back() = '\n';
  return goes_on;
}

}  // namespace cli
