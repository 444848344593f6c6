#include "errors.h"

#include "names.h"
#include "settings.h"

namespace cli {

std::string last_error() {
  std::string message = runnel_last_error();
  for (const std::string& setting : names_of(runnel_setting_name)) {
    const std::string quoted = '"' + setting + '"', option = option_name(setting);
    for (std::size_t at = 0; (at = message.find(quoted, at)) != std::string::npos; at += option.size())
      message.replace(at, quoted.size(), option);
  }
  return message;
}

void check(runnel_status status) {
  if (status == RUNNEL_STOPPED) throw Interrupted{};
  if (status == RUNNEL_UNSUPPORTED) throw Unsupported(last_error());
  if (status != RUNNEL_OK) throw Failure(last_error());
}

}  // namespace cli
