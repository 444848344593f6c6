// The library's settings as the command line names them: "top_k" is --top-k.
#pragma once
#include <cstdint>
#include <string>

#include "runnel/runnel.h"

namespace cli {

// "--top-k" for "top_k", and back: "top_k" for "top-k", "temperature" for "temp".
std::string option_name(const std::string& setting);
std::string setting_name(std::string option);

// As check, for a call whose settings are options: what the library finds wrong with them is UsageError, with
// the name of the option in place of the setting's.
void check_settings(runnel_status status);

// Stores a value that a user gave; UsageError with the library's message when it is bad.
void set_setting(runnel_config* config, const std::string& name, const std::string& value);

// The setting "sinks".
std::int64_t n_sinks_of(const runnel_config* config);

}  // namespace cli
