// JSON for scripts: keys in the order in which they are written, one object a command, or a line for each of
// many.
#pragma once
#include <nlohmann/json.hpp>

#include "console.h"

namespace cli {

using Json = nlohmann::ordered_json;

// On standard output, indented by so much, or in one line. Bytes that are not UTF-8 become U+FFFD.
inline void write_json(const Json& value, int indent = 2) {
  write_out(value.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n");
}
inline void write_json_line(const Json& value) { write_json(value, -1); }

}  // namespace cli
