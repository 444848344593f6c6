// What is typed while something other than the line editor runs: an answer, a command.
#pragma once
#include <termios.h>

#include <deque>
#include <thread>

#include "terminal_input.h"

namespace cli {

// For as long as it lives, a thread takes what is typed from the terminal, so that the terminal is never
// full: one that takes whole lines holds 4,095 bytes, cuts a longer line, and no longer sees Ctrl-C once it
// is full. It is appended to what is held, and in the end the terminal has its modes back. Ctrl-C drops what
// was typed before it, as the terminal itself does.
class TypedAhead {
 public:
  explicit TypedAhead(std::deque<char>& held);  // what was typed before, and not read yet
  ~TypedAhead();
  TypedAhead(const TypedAhead&) = delete;
  TypedAhead& operator=(const TypedAhead&) = delete;

 private:
  void take_in();  // the thread
  bool read_some(bool gone);
  void take_over();
  void heed_interrupt(bool came);

  std::deque<char>& held_;
  TypedBefore typed_before_;
  bool dropped_ = false;  // what came before Ctrl-C
  bool has_taken_over_ = false;
  termios before_{};  // the terminal's modes
  int wake_ = -1;     // ends the thread
  std::thread thread_;
};

}  // namespace cli
