// A bar while the library reads a message or a prompt as a whole.
#pragma once
#include <optional>

#include "progress.h"
#include "runnel/runnel.h"

namespace cli {

// Of a session, for as long as it lives. Gone when the session has read, before an answer begins.
class ReadingBar {
 public:
  explicit ReadingBar(runnel_session* session);
  ~ReadingBar();
  ReadingBar(const ReadingBar&) = delete;
  ReadingBar& operator=(const ReadingBar&) = delete;

 private:
  static int hear(void* user, double fraction);

  runnel_session* session_;
  std::optional<FractionProgress> bar_{"reading"};
};

}  // namespace cli
