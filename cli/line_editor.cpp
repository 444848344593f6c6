#include "line_editor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <cwctype>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "console.h"
#include "errors.h"
#include "interrupt.h"
#include "message.h"
#include "output_file.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr int history_size = 1000;  // lines

struct FileClose {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Where the history is kept, its folder made; empty when there is no such place.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state && *state == '/') {
    folder = fs::path(state) / "runnel";
  } else if (home && *home) {
    folder = fs::path(home) / ".local" / "state" / "runnel";
  } else {
    return {};
  }
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? std::string() : (folder / "history").string();
}

// One line to the file's end, where other chats put theirs. libedit writes whole histories: here one of its
// own.
void append_to_history(const std::string& path, const std::string& line) {
  const int opened = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const std::unique_ptr<std::FILE, FileClose> file(stream_of(opened, "a"));
  const std::unique_ptr<History, void (*)(History*)> lines(history_init(), history_end);
  if (!file || !lines) return;
  std::fseek(file.get(), 0, SEEK_END);  // only an empty file gets libedit's first line
  HistEvent event;
  history(lines.get(), &event, H_SETSIZE, 1);
  history(lines.get(), &event, H_ENTER, line.c_str());
  history(lines.get(), &event, H_SAVE_FP, file.get());
}

// At most so many cells of the screen: what cannot be printed shows as up to 8, as "\\U+10FFFF" does.
int most_cells(std::wstring_view text) {
  int n_cells = 0;
  for (const wchar_t c : text) n_cells += std::iswprint(static_cast<wint_t>(c)) ? std::max(1, wcwidth(c)) : 8;
  return n_cells;
}

// Whether a prompt and this may take all rows of the screen, or more. A wide character may leave the last
// cell of a row empty.
bool may_fill_screen(EditLine* editor, std::wstring_view text) {
  constexpr int n_prompt = 2;  // cells
  int n_rows = 0, n_columns = 0;
  el_get(editor, EL_GETTC, "li", &n_rows);
  el_get(editor, EL_GETTC, "co", &n_columns);
  return (n_prompt + most_cells(text)) / std::max(1, n_columns - 1) + 1 >= n_rows;
}

}  // namespace

// One character from the terminal, for libedit: 1, or 0 at the end, or -1 on Ctrl-C. libedit's own does not
// come back on Ctrl-C.
int LineEditor::read_character(EditLine* editor, wchar_t* out) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  self->draw_long_line_again();
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    const TerminalInput::Event event = self->input_.read(byte);
    if (event == TerminalInput::Event::interrupted) return -1;
    if (event == TerminalInput::Event::end) return 0;
    if (event == TerminalInput::Event::signal) {
      self->take_terminal_again();
      continue;
    }
    if (byte == '\0') continue;  // Ctrl-Space, after which libedit would take any key as text
    const std::size_t n_bytes = std::mbrtowc(out, &byte, 1, &state);
    if (n_bytes == static_cast<std::size_t>(-2)) continue;  // more bytes of this character to come
    if (n_bytes == static_cast<std::size_t>(-1)) *out = L'?';
    return 1;
  }
}

LineEditor::LineEditor(std::string prompt, std::vector<std::string> completions)
    : prompt_(std::move(prompt)),
      continued_prompt_("… "),
      completions_(std::move(completions)),
      history_path_(history_path()),
      history_(history_init()),
      editor_(el_init("runnel", stdin, stdout, stderr)) {
  if (!history_ || !editor_) throw Failure("cannot set up this terminal for editing lines");
  HistEvent event;
  history(history_.get(), &event, H_SETSIZE, history_size);
  history(history_.get(), &event, H_SETUNIQUE, 1);
  if (!history_path_.empty()) {
    const int n_lines = history(history_.get(), &event, H_LOAD, history_path_.c_str());
    if (n_lines > 2 * history_size) history(history_.get(), &event, H_SAVE, history_path_.c_str());
  }

  EditLine* editor = editor_.get();
  el_set(editor, EL_CLIENTDATA, this);
  el_set(editor, EL_PROMPT_ESC, LineEditor::prompt, '\1');
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, history_.get());
  el_set(editor, EL_GETCFN, read_character);
  el_set(editor, EL_ADDFN, "runnel-complete", "complete a command; a tab that is pasted is one",
         LineEditor::complete);
  el_set(editor, EL_BIND, "^I", "runnel-complete", nullptr);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor, nullptr);  // ~/.editrc
}

// Before the prompt asks for something: a terminal that still takes whole lines would cut a long paste.
void LineEditor::take_terminal() {
  el_set(editor_.get(), EL_PREP_TERM, 1);
  input_.begin_reading();
}

// Back from the background, or the window has a new size. libedit has to be told that its modes are gone.
void LineEditor::take_terminal_again() {
  EditLine* editor = editor_.get();
  el_set(editor, EL_PREP_TERM, 0);
  take_terminal();
  el_resize(editor);
  std::fputs(is_dumb_terminal() ? "\r" : "\r\x1b[J", stdout);  // over what is there
  el_set(editor, EL_REFRESH);
}

// Once the cursor has moved, libedit counts the rows of a line that is longer than the screen wrong, and ends
// up beyond its memory. Drawn anew, it counts them right.
void LineEditor::draw_long_line_again() {
  const LineInfoW* line = el_wline(editor_.get());
  const std::wstring_view text(line->buffer, static_cast<std::size_t>(line->lastchar - line->buffer));
  const std::ptrdiff_t before = std::exchange(cursor_, line->cursor - line->buffer);
  const bool is_typed_on = line->cursor == line->lastchar && cursor_ == before + 1;
  if (cursor_ != before && !is_typed_on) has_moved_ = true;
  if (!has_moved_ || !may_fill_screen(editor_.get(), text)) return;
  std::fputc('\r', stdout);
  el_set(editor_.get(), EL_REFRESH);
  has_moved_ = false;
}

LineEditor::Event LineEditor::read(std::string& line) {
  line.clear();
  for (;;) {
    continued_ = !line.empty();
    std::string piece;
    const Event event = read_one(piece);
    if (event == Event::interrupted) line += piece;
    if (event != Event::line) return event;
    if (!add_line(line, piece)) break;
  }
  if (!line.empty()) remember(line);
  return Event::line;
}

LineEditor::Event LineEditor::read_one(std::string& line) {
  clear_interrupt();
  cursor_ = 0;
  has_moved_ = false;
  const NoteInterrupt note;
  termios modes{};
  if (tcgetattr(STDIN_FILENO, &modes) == 0) set_last_modes(&modes);
  take_terminal();
  int n_bytes = 0;
  const char* text = el_gets(editor_.get(), &n_bytes);
  set_last_modes(nullptr);
  if (!text || n_bytes <= 0) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
    if (!interrupted()) return Event::end;
    const LineInfo* typed = el_line(editor_.get());
    line.assign(typed->buffer, typed->lastchar);
    input_.drop();
    return Event::interrupted;
  }
  line.assign(text, static_cast<std::size_t>(n_bytes));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return Event::line;
}

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  history(history_.get(), &event, H_ENTER, line.c_str());
  if (!history_path_.empty()) append_to_history(history_path_, line);
}

char* LineEditor::prompt(EditLine* editor) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return self->continued_ ? self->continued_prompt_.data() : self->prompt_.data();
}

unsigned char LineEditor::complete(EditLine* editor, int) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  if (self->input_.is_pasted()) return el_insertstr(editor, "\t") == 0 ? CC_REFRESH : CC_ERROR;
  const LineInfo* line = el_line(editor);
  const std::string typed(line->buffer, line->cursor);
  const std::string* match = nullptr;
  for (const std::string& completion : self->completions_) {
    if (typed.empty() || completion.compare(0, typed.size(), typed) != 0) continue;
    if (match) return CC_REFRESH_BEEP;
    match = &completion;
  }
  if (!match || el_insertstr(editor, match->substr(typed.size()).c_str()) != 0) return CC_REFRESH_BEEP;
  return CC_REFRESH;
}

}  // namespace cli
