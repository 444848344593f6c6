#include "reading_bar.h"

#include "errors.h"

namespace cli {

ReadingBar::ReadingBar(runnel_session* session) : session_(session) {
  check(runnel_session_on_progress(session, hear, this));
}

ReadingBar::~ReadingBar() { (void)runnel_session_on_progress(session_, nullptr, nullptr); }

int ReadingBar::hear(void* user, double fraction) {
  std::optional<FractionProgress>& bar = static_cast<ReadingBar*>(user)->bar_;
  if (bar) bar->update(fraction);
  if (fraction >= 1.0) bar.reset();
  return 0;
}

}  // namespace cli
