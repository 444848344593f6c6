#include "typed_ahead.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "console.h"
#include "interrupt.h"

namespace cli {
namespace {

constexpr int background_ms = 100;  // until one looks again whether the program is in the foreground
constexpr int foreground_ms = 500;  // and whether the terminal takes whole lines again

// No signal is handled on a thread that is started while this lives.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_{};
};

// Whether Ctrl-C came, if only as a signal that no thread has handled yet: on a thread that blocks it.
bool interrupt_came() {
  sigset_t pending;
  return interrupted() || (sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1);
}

}  // namespace

TypedAhead::TypedAhead(std::deque<char>& held) : held_(held), wake_(eventfd(0, EFD_CLOEXEC)) {
  if (wake_ < 0) return;
  const BlockSignals block;
  if (owns_terminal(STDIN_FILENO)) take_over();  // before there is an answer to type in
  try {
    thread_ = std::thread([this] { take_in(); });
  } catch (const std::system_error&) {  // no thread to be had: the terminal keeps what it can
  }
}

TypedAhead::~TypedAhead() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n_written = write(wake_, &one, sizeof one);
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
  if (has_taken_over_) give_back_modes(before_);
  heed_interrupt(interrupted());
}

void TypedAhead::take_in() {
  for (;;) {
    const bool ours = owns_terminal(STDIN_FILENO);
    if (ours) take_over();
    // In the background reading is an error: the terminal is not looked at.
    pollfd files[] = {{wake_, POLLIN, 0}, {ours ? input_file() : -1, POLLIN, 0}};
    if (poll(files, 2, ours ? foreground_ms : background_ms) < 0 && errno != EINTR) return;
    if (files[0].revents != 0) return;
    if (files[1].revents == 0) continue;
    if (!read_some((files[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)) return;
  }
}

// False when nothing more will come. gone: nobody is at the other end, though what was typed before that may
// be there still.
bool TypedAhead::read_some(bool gone) {
  std::array<char, 4096> block;
  const bool came_before = interrupt_came();
  const ssize_t n_read = read(input_file(), block.data(), block.size());
  if (n_read <= 0) return !gone;
  heed_interrupt(interrupt_came());
  for (ssize_t i = 0; i < n_read; ++i)
    held_.push_back(typed_before_.as_typed(block[static_cast<std::size_t>(i)]));
  // Ctrl-C came amid the reading: what there was to be read was typed before it.
  if (dropped_ && !came_before) held_.clear();
  return true;
}

// Has the terminal give out each byte as it was typed. Again when a shell has put back modes of its own,
// after Ctrl-Z.
void TypedAhead::take_over() {
  termios now{};
  if (tcgetattr(STDIN_FILENO, &now) != 0 || (now.c_lflag & ICANON) == 0) return;
  if (!has_taken_over_) before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  now.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR);
  now.c_cc[VMIN] = 1;
  now.c_cc[VTIME] = 0;
  if (!change_modes(now, before_)) return;
  has_taken_over_ = true;
  typed_before_.count();
}

void TypedAhead::heed_interrupt(bool came) {
  if (came && !std::exchange(dropped_, true)) held_.clear();
}

}  // namespace cli
