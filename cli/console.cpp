#include "console.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "errors.h"
#include "interrupt.h"

namespace cli {

bool input_is_terminal() { return isatty(STDIN_FILENO) == 1; }
bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return !term || *term == '\0' || std::strcmp(term, "dumb") == 0;
}

int input_file() {
  static const int opened =
      input_is_terminal() ? open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
  return opened < 0 ? STDIN_FILENO : opened;
}

void open_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // What is opened gets the lowest number that is free: this one.
    if (fcntl(file, F_GETFD) == -1 && open("/dev/null", O_RDWR) < 0) return;
  }
}

void set_locale() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

namespace {

// Of a file that does not block: standard files are shared with programs that may have set them so.
void wait_until_ready(int file, short event) {
  pollfd files[] = {{file, event, 0}};
  (void)poll(files, 1, -1);  // a signal ends it too
}

}  // namespace

// Not through stdio, which drops what it holds when a signal comes while it waits for the reader. Ctrl-C
// stops the making of more; what was made waits on.
void write_out(std::string_view text) {
  std::fflush(stdout);  // what the line editor left there comes first
  while (!text.empty()) {
    const ssize_t n_written = write(STDOUT_FILENO, text.data(), text.size());
    if (n_written < 0 && errno == EPIPE) throw ReaderGone{};
    if (n_written < 0 && errno == EAGAIN) {
      wait_until_ready(STDOUT_FILENO, POLLOUT);
    } else if (n_written < 0 && errno != EINTR) {
      throw Failure(std::string("cannot write to standard output: ") + std::strerror(errno));
    }
    if (n_written > 0) text.remove_prefix(static_cast<std::size_t>(n_written));
    if (!text.empty() && is_pressed_to_end()) throw Interrupted{};
  }
}

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

namespace {

// U+0080 to U+009F, which terminals obey too.
bool is_long_control(std::string_view text, std::size_t i) {
  return i + 1 < text.size() && text[i] == '\xc2' && static_cast<unsigned char>(text[i + 1]) < 0xa0;
}

}  // namespace

void write_model_text(std::string_view text) {
  static const bool terminal = output_is_terminal();
  if (!terminal) return write_out(text);
  write_out(without_controls(text));
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_long_control(text, i))
      ++i;
    else if (!is_control(text[i]) || text[i] == '\n' || text[i] == '\t')
      shown += text[i];
  }
  return shown;
}

void write_note(std::string_view text) {
  const Style style = error_style();
  std::fprintf(stderr, "%s%.*s%s\n", style.dim, static_cast<int>(text.size()), text.data(), style.plain);
}

void write_error(std::string_view message) {
  std::fflush(stdout);
  std::fprintf(stderr, "runnel: %s\n", one_line(message).c_str());
}

std::string one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_long = is_long_control(text, i);
    line += is_long || is_control(text[i]) ? ' ' : text[i];
    if (is_long) ++i;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

namespace {

// Bytes of the character that the text begins with; 0 where it begins with none (RFC 3629, section 4).
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool is_overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool is_beyond = lead == 0xf4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_beyond ? 0 : size;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    valid += size == 0 ? "\xEF\xBF\xBD" : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(1, size));
  }
  return valid;
}

Style error_style() {
  static const bool styled = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return error_is_terminal() && !(no_color && *no_color) && !is_dumb_terminal();
  }();
  return styled ? Style{"\x1b[2m", "\x1b[1m", "\x1b[0m"} : Style{"", "", ""};
}

std::string with_commas(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first_digit = value < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first_digit + 3;) {
    i -= 3;
    text.insert(i, ",");
  }
  return text;
}

std::string counted(std::int64_t n, const std::string& noun) {
  return with_commas(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string bytes_text(std::int64_t n_bytes) {
  constexpr std::array units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (n_bytes < 1024) return counted(n_bytes, "byte");
  double value = static_cast<double>(n_bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed(value, 1) + " " + units[unit];
}

std::string rate_text(double per_second) {
  if (per_second >= 1000.0 && per_second < 1e15) return with_commas(static_cast<std::int64_t>(per_second));
  return fixed(per_second, per_second >= 100.0 ? 0 : per_second >= 10.0 ? 1 : 2);
}

std::string fixed(double value, int n_decimals) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", n_decimals, value);
  return text.data();
}

std::string signed_percent(double share) { return (share < 0 ? "" : "+") + fixed(100 * share, 2) + " %"; }

std::string left_aligned(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(text.size(), width), ' ') + text;
}

std::string read_text(const std::string& path) {
  const bool standard_input = path == "-";
  const auto fail = [&](const char* what) {
    return Failure((standard_input ? "standard input" : path) + ": " + what + ": " + std::strerror(errno));
  };
  std::FILE* opened = standard_input ? stdin : std::fopen(path.c_str(), "rb");
  if (!opened) throw fail("cannot open");
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(opened, close);

  std::string text;
  std::array<char, 65536> block;
  // A terminal may go on after its end: that is asked for once.
  while (std::feof(opened) == 0) {
    const std::size_t n_read = std::fread(block.data(), 1, block.size(), opened);
    if (std::ferror(opened) != 0) {
      if (errno != EAGAIN) throw fail("cannot read");
      std::clearerr(opened);
      wait_until_ready(fileno(opened), POLLIN);
    }
    text.append(block.data(), n_read);
  }
  return text;
}

}  // namespace cli
