// JSON for scripts: keys in the order in which they are written, one object a command.
#pragma once
#include <nlohmann/json.hpp>

#include "console.h"

namespace cli {

using Json = nlohmann::ordered_json;

// Indented, on standard output. Bytes that are not UTF-8 become U+FFFD.
inline void write_json(const Json& value) {
  write_out(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace cli
