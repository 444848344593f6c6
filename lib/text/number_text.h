// Numbers as text and back, whatever the locale of the process says.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace runnel {

// The shortest text that reads back as the same value.
template <class T>
std::string number_text(T value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// As printf's %.*g: 15 digits at most.
inline std::string number_text(double value, int digits) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}

// The float nearest to what the whole text says, or nothing: no blanks, no sign '+', decimal digits alone.
// Zero or infinite where it is beyond floats.
std::optional<float> float_of_text(std::string_view text);

}  // namespace runnel
