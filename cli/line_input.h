// Lines from standard input where it is no terminal, with Ctrl-C noticed while waiting for the next.
#pragma once
#include <string>

namespace cli {

class LineInput {
 public:
  enum class Event { line, interrupted, end };
  // Without the newline, and without the carriage return before it. What comes after the last newline is a
  // line too. Failure where the input cannot be read.
  Event read(std::string& line);
  // A line that ends in a backslash goes on in the next, and at the end of the input ends there.
  Event read_message(std::string& message);

 private:
  std::string held_;  // read, and not given out yet
  bool at_end_ = false;
};

}  // namespace cli
