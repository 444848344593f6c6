// What is typed and pasted at a terminal, for the line editor.
#pragma once
#include <deque>
#include <string>

namespace cli {

// The bytes that the terminal had when it came to give out single ones. Typed while it still took whole
// lines, Ctrl-D comes out as a zero; typed since then, that is Ctrl-Space.
class TypedBefore {
 public:
  void count();
  char as_typed(char byte);  // the next byte that was read

 private:
  int n_bytes_ = 0;
};

// Gives out what was typed ahead, then what the terminal has. Has the terminal mark what is pasted, where it
// can (bracketed paste, of xterm and most since), so that a paste is text whatever it holds: a newline in it
// does not end the message, a tab completes nothing, and no control character edits or ends anything.
class TerminalInput {
 public:
  TerminalInput();
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // When the terminal has come to give out single bytes: before each line, and after a stop, as meanwhile a
  // shell may have told the terminal not to mark pastes.
  void begin_reading();

  enum class Event {
    byte,
    interrupted,
    signal,  // another one was handled
    end,     // also when the terminal has gone
    nothing  // in the time that was given
  };
  // Waits as long as it takes. In a paste a newline becomes a backslash and a newline; the last of it is
  // dropped.
  Event read(char& byte);
  bool is_pasted() const { return is_pasted_; }  // the byte that was read last

  std::deque<char>& typed_ahead() { return held_; }
  void drop();  // what was typed ahead

 private:
  Event next(char& byte, int timeout_ms = -1);
  std::string read_sequence();
  Event read_paste();

  std::deque<char> held_;    // typed before all that the terminal has
  std::deque<char> pasted_;  // what is left of a paste
  bool is_pasted_ = false;
  TypedBefore typed_before_;
};

}  // namespace cli
