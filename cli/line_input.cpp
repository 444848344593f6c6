#include "line_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "console.h"
#include "errors.h"
#include "interrupt.h"
#include "message.h"

namespace cli {

LineInput::Event LineInput::read(std::string& line) {
  const NoteInterrupt only_noted;
  for (;;) {
    const std::size_t newline = held_.find('\n');
    if (newline != std::string::npos || (at_end_ && !held_.empty())) {
      line = held_.substr(0, newline);
      held_.erase(0, newline == std::string::npos ? newline : newline + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Event::line;
    }
    if (at_end_) return Event::end;
    const Wake wake = wait_for_input(input_file());
    if (wake == Wake::interrupt) return Event::interrupted;
    if (wake == Wake::signal) continue;
    std::array<char, 4096> block;
    const ssize_t n_read = ::read(input_file(), block.data(), block.size());
    if (n_read > 0) held_.append(block.data(), static_cast<std::size_t>(n_read));
    if (n_read == 0) at_end_ = true;
    if (n_read < 0 && errno != EINTR && errno != EAGAIN)
      throw Failure(std::string("standard input: cannot read: ") + std::strerror(errno));
  }
}

LineInput::Event LineInput::read_message(std::string& message) {
  message.clear();
  for (;;) {
    std::string line;
    const Event event = read(line);
    if (event == Event::end && !message.empty()) return Event::line;
    if (event != Event::line) return event;
    if (!add_line(message, line)) return Event::line;
  }
}

}  // namespace cli
