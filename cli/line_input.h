// Lines from standard input where it is no terminal, with Ctrl-C noticed while waiting for the next.
#pragma once
#include <string>

namespace cli {

class LineInput {
 public:
  enum class Event { line, interrupted, end };
  // Without the newline, and without the carriage return before it. What comes after the last newline is a
  // line too.
  Event read(std::string& line);

 private:
  std::string held_;  // read, and not given out yet
  bool at_end_ = false;
};

}  // namespace cli
