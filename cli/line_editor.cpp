#include "line_editor.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <system_error>
#include <utility>

#include "console.h"
#include "errors.h"
#include "interrupt.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr int history_size = 1000;  // lines

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

// Bytes that the terminal has for us already.
int n_bytes_waiting() {
  int n_bytes = 0;
  return ioctl(STDIN_FILENO, FIONREAD, &n_bytes) == 0 ? n_bytes : 0;
}

}  // namespace

// One character from the terminal, for libedit: 1, or 0 at the end, or -1 on Ctrl-C or an error. libedit's
// own does not come back on Ctrl-C.
int LineEditor::read_character(EditLine* editor, wchar_t* out) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  if (std::exchange(self->begins_, false)) self->n_typed_before_ = n_bytes_waiting();
  std::mbstate_t state{};
  for (;;) {
    const Wake wake = wait_for_input(STDIN_FILENO);
    if (wake == Wake::interrupt) return -1;
    char byte = 0;
    const ssize_t n_read = wake == Wake::input ? ::read(STDIN_FILENO, &byte, 1) : -1;
    if (n_read == 0) return 0;
    if (n_read < 0) {
      if (wake == Wake::input && errno != EINTR) return -1;
      el_set(editor, EL_REFRESH);  // back from the background, or the window has a new size
      continue;
    }
    // Ctrl-D typed while the terminal still took whole lines (an answer was printed) comes out as a zero.
    // Typed since then, that is Ctrl-Space.
    const bool typed_before = self->n_typed_before_ > 0;
    if (typed_before) --self->n_typed_before_;
    if (byte == '\0' && typed_before) byte = '\x04';
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
  if (!history_path_.empty()) history(history_.get(), &event, H_LOAD, history_path_.c_str());

  EditLine* editor = editor_.get();
  el_set(editor, EL_CLIENTDATA, this);
  el_set(editor, EL_PROMPT_ESC, LineEditor::prompt, '\1');
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, history_.get());
  el_set(editor, EL_SIGNAL, 1);  // the terminal is put right before a signal takes its course
  el_set(editor, EL_GETCFN, read_character);
  el_set(editor, EL_ADDFN, "runnel-complete", "complete a command", LineEditor::complete);
  el_set(editor, EL_BIND, "^I", "runnel-complete", nullptr);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor, nullptr);  // ~/.editrc
}

LineEditor::Event LineEditor::read(std::string& line) {
  line.clear();
  for (;;) {
    continued_ = !line.empty();
    std::string piece;
    const Event event = read_one(piece);
    if (event != Event::line) return event;
    line += piece;
    if (line.empty() || line.back() != '\\') break;
    line.back() = '\n';
  }
  if (!line.empty()) remember(line);
  return Event::line;
}

LineEditor::Event LineEditor::read_one(std::string& line) {
  clear_interrupt();
  begins_ = true;
  const NoteInterrupt note;
  int n_bytes = 0;
  const char* text = el_gets(editor_.get(), &n_bytes);
  if (!text || n_bytes <= 0) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
    return interrupted() ? Event::interrupted : Event::end;
  }
  line.assign(text, static_cast<std::size_t>(n_bytes));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return Event::line;
}

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  history(history_.get(), &event, H_ENTER, line.c_str());
  if (!history_path_.empty()) history(history_.get(), &event, H_SAVE, history_path_.c_str());
}

char* LineEditor::prompt(EditLine* editor) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return self->continued_ ? self->continued_prompt_.data() : self->prompt_.data();
}

unsigned char LineEditor::complete(EditLine* editor, int) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
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
