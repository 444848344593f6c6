// Reads lines from a terminal with editing, history and completion (libedit).
#pragma once
#include <histedit.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "terminal_input.h"

namespace cli {

class LineEditor {
 public:
  // The first word of a line completes to one of `completions`. History is kept in
  // $XDG_STATE_HOME/runnel/history (~/.local/state/runnel/history) where that can be written.
  LineEditor(std::string prompt, std::vector<std::string> completions);

  enum class Event {
    line,
    interrupted,  // Ctrl-C: what `line` holds was typed and is dropped
    end           // Ctrl-D on an empty line, or the terminal has gone
  };
  // A line that ends in a backslash goes on in the next. The newline is not part of the line.
  Event read(std::string& line);

  std::deque<char>& typed_ahead() { return input_.typed_ahead(); }

 private:
  Event read_one(std::string& line);
  void take_terminal();
  void take_terminal_again();
  void draw_long_line_again();
  void remember(const std::string& line);

  static int read_character(EditLine* editor, wchar_t* out);
  static char* prompt(EditLine* editor);
  static unsigned char complete(EditLine* editor, int);

  struct End {
    void operator()(EditLine* editor) const { el_end(editor); }
    void operator()(History* history) const { history_end(history); }
  };

  TerminalInput input_;
  std::string prompt_, continued_prompt_;
  bool continued_ = false;
  std::ptrdiff_t cursor_ = 0;
  bool has_moved_ = false;  // the cursor, other than by typing on, since the line was drawn
  std::vector<std::string> completions_;
  std::string history_path_;  // empty: not kept
  std::unique_ptr<History, End> history_;
  std::unique_ptr<EditLine, End> editor_;
};

}  // namespace cli
