// Lists, mostly of names: of settings, kernels, shapes, forms of conversation.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace cli {

// All of one of the library's lists (runnel_setting_name, runnel_shape_name and the like), in its order.
inline std::vector<std::string> names_of(const char* (*name_at)(std::size_t)) {
  std::vector<std::string> names;
  while (const char* name = name_at(names.size())) names.emplace_back(name);
  return names;
}

// "f32, f16"
inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// "1,2,3" in its three pieces: one more than there are separators.
inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    pieces.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return pieces;
}

}  // namespace cli
