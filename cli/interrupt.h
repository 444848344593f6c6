// Signals. What Ctrl-C does depends on what runs:
//
//   nothing of ours  the program ends at once (while a text is read, say)
//   StopSession      the work of its sessions ends after the token at hand; a second Ctrl-C ends the program
//   NoteInterrupt    it is only noted: someone is typing and reads interrupted(), or a call into the library
//                    asks for it now and then (CallProgress: a model is opened, packed, written)
//   StopSession in   the work ends as above, and a second Ctrl-C meanwhile does nothing: in a chat on a
//   NoteInterrupt    terminal, which goes on
//
// While a FinishFirst lives the program never ends by itself: where it would, Ctrl-C is noted. So are SIGTERM
// and SIGHUP (the terminal is gone), which else end it at once: they are a Ctrl-C that nothing clears.
//
// Whatever ends or stops the program (Ctrl-Z) gives the terminal back its modes first.
#pragma once
#include <termios.h>

#include "runnel/runnel.h"

namespace cli {

// Installs the handlers, but for signals that the program was started with ignored. Also ignores SIGPIPE and
// SIGXFSZ, so that writing to a reader that has gone, or more than a limit allows, is an error and not a
// signal.
void watch_signals();

// Whether Ctrl-C came since the last clear, or the program was asked to end.
bool interrupted();
void clear_interrupt();
bool asked_to_end();

// Whether what waits for something outside should give it up: Ctrl-C came twice since the last clear, and the
// second one does something, or the program was asked to end.
bool is_pressed_to_end();

// What to end with after that: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP, as shells have it.
int exit_code_of_interrupt();

// Waits until the file has something to read or is at its end, until Ctrl-C (also one that came before, since
// the last clear), until another signal was handled, or until the time is over (-1: it never is).
enum class Wake { input, interrupt, signal, nothing };
Wake wait_for_input(int file, int timeout_ms = -1);

// What to write to a terminal where a signal ends or stops the program: a constant, or null for nothing.
// Standard output and standard error have words of their own: a bar on one leaves those of the other alone.
void set_last_words(int file, const char* text);

// Changes the modes of standard input, a terminal, from a thread that handles no signals. False where that
// failed or a signal is ending the program, which gives back the last ones then; they stay where they are
// until they are given back.
bool change_modes(const termios& modes, const termios& last);
// The modes of standard input, a terminal, that a signal which ends or stops the program gives back; null for
// none. For one thread that changes them by itself.
void set_last_modes(const termios* modes);
// In the background the terminal is another's, and keeps its modes.
void give_back_modes(const termios& modes);

// Whether a file that is a terminal is this program's: it runs in the foreground, or nobody tells foreground
// and background apart on that terminal. Also for signal handlers.
bool owns_terminal(int file);

// Each for as long as the object lives; of several the one that was made last counts.
enum class OnInterrupt { end, stop_session, only_stop_session, note };

class StopSession {
 public:
  explicit StopSession(runnel_session* session, runnel_session* other = nullptr);
  ~StopSession();
  StopSession(const StopSession&) = delete;
  StopSession& operator=(const StopSession&) = delete;

 private:
  OnInterrupt before_;
};

class NoteInterrupt {
 public:
  NoteInterrupt();
  ~NoteInterrupt();
  NoteInterrupt(const NoteInterrupt&) = delete;
  NoteInterrupt& operator=(const NoteInterrupt&) = delete;

 private:
  OnInterrupt before_;
};

class FinishFirst {
 public:
  FinishFirst();
  ~FinishFirst();
  FinishFirst(const FinishFirst&) = delete;
  FinishFirst& operator=(const FinishFirst&) = delete;

 private:
  bool could_end_before_;
};

}  // namespace cli
