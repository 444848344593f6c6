#include "terminal_input.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "console.h"
#include "interrupt.h"

namespace cli {
namespace {

// https://invisible-island.net/xterm/ctlseqs/ctlseqs.html, "Bracketed Paste Mode"
constexpr const char* marks_on = "\x1b[?2004h";
constexpr const char* marks_off = "\x1b[?2004l";
constexpr char escape = '\x1b';
constexpr std::string_view paste_begin = "\x1b[200~", paste_end = "\x1b[201~";
constexpr int sequence_ms = 50;  // within which the bytes of a sequence follow each other

void tell_terminal(const char* sequence) {
  if (is_dumb_terminal()) return;
  std::fputs(sequence, stdout);
  std::fflush(stdout);
}

bool is_newline(char c) { return c == '\n' || c == '\r'; }

// A paste as libedit may have it. Of CR LF the terminal's modes may have made LF CR.
std::string without_power(std::string_view paste) {
  std::string text;
  for (std::size_t i = 0; i < paste.size(); ++i) {
    const char c = paste[i];
    if (is_newline(c)) {
      if (i + 1 < paste.size() && is_newline(paste[i + 1]) && paste[i + 1] != c) ++i;
      if (i + 1 < paste.size()) text += "\\\n";
    } else if (c == '\t' || !is_control(c)) {
      text += c;
    }
  }
  return text;
}

}  // namespace

void TypedBefore::count() {
  if (ioctl(STDIN_FILENO, FIONREAD, &n_bytes_) != 0) n_bytes_ = 0;
}

char TypedBefore::as_typed(char byte) {
  if (n_bytes_ == 0) return byte;
  --n_bytes_;
  return byte == '\0' ? '\x04' : byte;
}

TerminalInput::TerminalInput() {
  if (!is_dumb_terminal()) set_last_words(STDOUT_FILENO, marks_off);
}

TerminalInput::~TerminalInput() {
  tell_terminal(marks_off);
  set_last_words(STDOUT_FILENO, nullptr);
}

void TerminalInput::begin_reading() {
  typed_before_.count();
  tell_terminal(marks_on);
}

TerminalInput::Event TerminalInput::read(char& byte) {
  for (;;) {
    if (interrupted()) return Event::interrupted;
    is_pasted_ = !pasted_.empty();
    if (is_pasted_) {
      byte = pasted_.front();
      pasted_.pop_front();
      return Event::byte;
    }
    Event event = next(byte);
    if (event != Event::byte || byte != escape) return event;
    const std::string sequence = read_sequence();
    if (sequence == paste_begin) {
      event = read_paste();
      if (event != Event::byte) return event;
    } else if (sequence != paste_end) {  // what ends a paste that was dropped is dropped too
      held_.insert(held_.begin(), sequence.begin() + 1, sequence.end());
      return Event::byte;
    }
  }
}

// One byte, as it was typed.
TerminalInput::Event TerminalInput::next(char& byte, int timeout_ms) {
  if (interrupted()) return Event::interrupted;
  if (!held_.empty()) {
    byte = held_.front();
    held_.pop_front();
    return Event::byte;
  }
  ssize_t n_read = 0;
  do {
    const Wake wake = wait_for_input(input_file(), timeout_ms);
    if (wake == Wake::interrupt) return Event::interrupted;
    if (wake == Wake::nothing) return Event::nothing;
    if (wake == Wake::signal) return Event::signal;
    n_read = ::read(input_file(), &byte, 1);
  } while (n_read < 0 && errno == EAGAIN);  // dropped before it was read
  if (n_read < 0 && errno == EINTR) return Event::signal;
  if (n_read <= 0) return Event::end;
  byte = typed_before_.as_typed(byte);
  return Event::byte;
}

// From an escape that was read: one of the two sequences, or what was read before that turned out to be none.
std::string TerminalInput::read_sequence() {
  std::string sequence(1, escape);
  char byte = 0;
  while ((paste_begin.starts_with(sequence) || paste_end.starts_with(sequence)) &&
         sequence.size() < paste_begin.size() && next(byte, sequence_ms) == Event::byte)
    sequence += byte;
  return sequence;
}

// All of it before any is given out: between two lines the terminal edits and echoes by itself.
TerminalInput::Event TerminalInput::read_paste() {
  std::string paste;
  while (!paste.ends_with(paste_end)) {
    char byte = 0;
    const Event event = next(byte);
    if (event == Event::signal) continue;
    if (event != Event::byte) return event;
    paste += byte;
  }
  const std::string text = without_power(std::string_view(paste).substr(0, paste.size() - paste_end.size()));
  pasted_.assign(text.begin(), text.end());
  return Event::byte;
}

void TerminalInput::drop() {
  held_.clear();
  pasted_.clear();
}

}  // namespace cli
