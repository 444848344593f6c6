// Where the bundled demo model is.
#pragma once
#include <string>

namespace cli {

// The path itself, or for an empty one that of the bundled model. Failure when that is not installed.
std::string model_or_bundled(const std::string& path);

}  // namespace cli
