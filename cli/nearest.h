// What someone meant who mistyped a name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// The name that the fewest edits make of the word, if they are few enough for it to have been meant; else "".
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace cli
