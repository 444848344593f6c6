#include "settings.h"

#include <algorithm>
#include <vector>

#include "errors.h"
#include "names.h"

namespace cli {

std::string option_name(const std::string& setting) {
  std::string name = "--" + setting;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string setting_name(std::string option) {
  std::replace(option.begin(), option.end(), '-', '_');
  return option == "temp" ? "temperature" : option;
}

void check_settings(runnel_status status) {
  if (status != RUNNEL_BAD_ARGUMENT) return check(status);
  std::string message = last_error();
  const std::string name = message.substr(0, message.find(':'));
  const std::vector<std::string> names = names_of(runnel_setting_name);
  if (std::find(names.begin(), names.end(), name) != names.end())
    message.replace(0, name.size(), option_name(name));
  throw UsageError(message);
}

void set_setting(runnel_config* config, const std::string& name, const std::string& value) {
  check_settings(runnel_config_set(config, name.c_str(), value.c_str()));
}

std::int64_t n_sinks_of(const runnel_config* config) {
  return std::stoll(runnel_config_get(config, "sinks"));
}

}  // namespace cli
