// The C surface: settings by name.
#include "lib/api/call.h"

using namespace runnel;

runnel_status runnel_config_new(runnel_config** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    *out = new runnel_config();
    return {};
  });
}

void runnel_config_free(runnel_config* config) { delete config; }

runnel_status runnel_config_set(runnel_config* config, const char* name, const char* value) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(config);
    RUNNEL_REQUIRE(name);
    RUNNEL_REQUIRE(value);
    return config->settings.set(name, value);
  });
}

const char* runnel_config_get(const runnel_config* config, const char* name) {
  const char* text = nullptr;
  const runnel_status status = guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(config);
    RUNNEL_REQUIRE(name);
    RUNNEL_ASSIGN(std::string value, config->settings.get(name));
    auto* self = const_cast<runnel_config*>(config);  // the text is a cache, of no meaning to the config
    self->text = std::move(value);
    text = self->text.c_str();
    return {};
  });
  return status == RUNNEL_OK ? text : nullptr;
}

const char* runnel_setting_name(size_t i) { return i < n_settings() ? setting_info(i).name : nullptr; }
const char* runnel_setting_help(size_t i) { return i < n_settings() ? setting_info(i).help : nullptr; }
