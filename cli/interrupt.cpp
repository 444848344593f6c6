#include "interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "errors.h"

namespace cli {
namespace {

std::atomic<OnInterrupt> mode{OnInterrupt::end};
std::atomic<runnel_session*> running[2] = {nullptr, nullptr};
std::atomic<int> n_interrupts{0};
std::atomic<int> end_signal{0};  // that the program was asked to end with
std::atomic<bool> may_end{true};
std::atomic<const char*> last_words[STDERR_FILENO + 1] = {};  // by the file they go to
std::atomic<const termios*> last_modes{nullptr};
std::atomic<bool> is_leaving{false};         // the terminal is as it was, and is to stay so
std::atomic<bool> is_changing_modes{false};  // on another thread
// A byte for each signal, so that one that comes just before a wait ends it too.
int pipe_ends[2] = {-1, -1};
static_assert(std::atomic<OnInterrupt>::is_always_lock_free &&
              std::atomic<runnel_session*>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free &&
              std::atomic<const termios*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free);

void end_wait() {
  const int error_before = errno;
  [[maybe_unused]] const ssize_t n_written = write(pipe_ends[1], "", 1);  // full: it wakes as it is
  errno = error_before;
}

void forget_signals() {
  char bytes[16];
  while (read(pipe_ends[0], bytes, sizeof bytes) > 0) {
  }
}

void stop_session() {
  for (const auto& one : running)
    if (runnel_session* session = one.load()) runnel_session_stop(session);
}

// Ends what Ctrl-S holds back, which whatever is written would wait for: so does a terminal that is told to
// have no Ctrl-S.
void release_output() {
  for (const int file : {STDERR_FILENO, STDOUT_FILENO}) {
    termios modes{};
    if (!owns_terminal(file) || tcgetattr(file, &modes) != 0) continue;
    termios released = modes;
    released.c_iflag &= ~static_cast<tcflag_t>(IXON);
    tcsetattr(file, TCSANOW, &released);
    tcsetattr(file, TCSANOW, &modes);
  }
}

// Leaves the terminal as it was. In the background it is another's, and setting modes would stop the program.
void leave_terminal() {
  is_leaving.store(true);
  while (is_changing_modes.load()) {
  }
  release_output();
  const termios* modes = last_modes.load();
  if (modes && owns_terminal(STDIN_FILENO)) tcsetattr(STDIN_FILENO, TCSANOW, modes);
  for (const int file : {STDERR_FILENO, STDOUT_FILENO}) {
    const char* text = last_words[file].load();
    if (!text) continue;
    [[maybe_unused]] const ssize_t n_written = write(file, text, std::strlen(text));
  }
}

[[noreturn]] void end_interrupted() {
  leave_terminal();
  _exit(exit_interrupted);
}

// The signal's own end, once its handler has returned.
void end_by(int number) {
  leave_terminal();
  signal(number, SIG_DFL);
  raise(number);
}

void on_interrupt(int) {
  const int n_before = n_interrupts.fetch_add(1);
  end_wait();
  switch (mode.load()) {
    case OnInterrupt::end:
      if (may_end.load()) end_interrupted();
      return;
    case OnInterrupt::stop_session:
      if (n_before > 0 && may_end.load()) end_interrupted();
      return stop_session();
    case OnInterrupt::only_stop_session:
      return stop_session();
    case OnInterrupt::note:
      return;
  }
}

void on_end(int number) {
  if (may_end.load()) return end_by(number);
  const int error_before = errno;
  end_signal.store(number);
  release_output();
  end_wait();
  stop_session();
  errno = error_before;
}

// Unless the signal is ignored.
void handle(int number, void (*handler)(int), int flags = 0) {
  struct sigaction current {};
  sigaction(number, nullptr, &current);
  if (current.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

// Ctrl-Z: the terminal is as it was before the program stops.
void on_stop(int number) {
  const int error_before = errno;
  leave_terminal();
  signal(number, SIG_DFL);
  sigset_t this_one;
  sigemptyset(&this_one);
  sigaddset(&this_one, number);
  pthread_sigmask(SIG_UNBLOCK, &this_one, nullptr);
  raise(number);  // and goes on from here
  handle(number, on_stop, SA_RESTART);
  is_leaving.store(false);
  end_wait();
  errno = error_before;
}

void on_change(int) { end_wait(); }

}  // namespace

void watch_signals() {
  if (pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) != 0) pipe_ends[0] = pipe_ends[1] = -1;
  // A read from the terminal returns.
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_end);
  handle(SIGHUP, on_end);
  handle(SIGQUIT, end_by);
  // Nothing but a wait for input does.
  handle(SIGTSTP, on_stop, SA_RESTART);
  handle(SIGCONT, on_change, SA_RESTART);
  handle(SIGWINCH, on_change, SA_RESTART);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void set_last_words(int file, const char* text) { last_words[file].store(text); }

bool change_modes(const termios& modes, const termios& last) {
  is_changing_modes.store(true);
  const bool changed = !is_leaving.load() && tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0;
  if (changed) last_modes.store(&last);
  is_changing_modes.store(false);
  return changed;
}

void set_last_modes(const termios* modes) { last_modes.store(modes); }

void give_back_modes(const termios& modes) {
  if (owns_terminal(STDIN_FILENO)) tcsetattr(STDIN_FILENO, TCSANOW, &modes);
  last_modes.store(nullptr);
}

bool owns_terminal(int file) {
  const pid_t owner = tcgetpgrp(file);
  return owner < 0 || owner == getpgrp();
}

bool interrupted() { return n_interrupts.load() > 0 || asked_to_end(); }

bool is_pressed_to_end() {
  const bool is_pressed = n_interrupts.load() > 1 && mode.load() != OnInterrupt::only_stop_session;
  return is_pressed || asked_to_end();
}

bool asked_to_end() { return end_signal.load() != 0; }

int exit_code_of_interrupt() { return asked_to_end() ? 128 + end_signal.load() : exit_interrupted; }

void clear_interrupt() {
  n_interrupts.store(0);
  forget_signals();
}

Wake wait_for_input(int file, int timeout_ms) {
  pollfd files[] = {{file, POLLIN, 0}, {pipe_ends[0], POLLIN, 0}};
  const int n_ready = interrupted() ? 0 : poll(files, 2, timeout_ms);
  if (interrupted()) return Wake::interrupt;
  if (n_ready == 0) return Wake::nothing;
  if (n_ready > 0 && files[1].revents == 0) return Wake::input;
  forget_signals();
  return Wake::signal;
}

StopSession::StopSession(runnel_session* session, runnel_session* other) {
  running[0].store(session);
  running[1].store(other);
  before_ = mode.load();
  const bool goes_on = before_ == OnInterrupt::note;
  mode.store(goes_on ? OnInterrupt::only_stop_session : OnInterrupt::stop_session);
}

StopSession::~StopSession() {
  mode.store(before_);
  for (auto& one : running) one.store(nullptr);
}

NoteInterrupt::NoteInterrupt() : before_(mode.exchange(OnInterrupt::note)) {}
NoteInterrupt::~NoteInterrupt() { mode.store(before_); }

FinishFirst::FinishFirst() : could_end_before_(may_end.exchange(false)) {}
FinishFirst::~FinishFirst() { may_end.store(could_end_before_); }

}  // namespace cli
