// Lists of names: of settings, kernels, shapes, forms of conversation.
#pragma once
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

}  // namespace cli
