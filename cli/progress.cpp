#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "console.h"

namespace cli {
namespace {

constexpr auto quiet_time = std::chrono::seconds(1);
constexpr auto redraw_time = std::chrono::milliseconds(100);
constexpr const char* erase_line = "\r\x1b[K";

int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// The first of some texts, from the fullest to the barest, that has room in so many columns; else "".
std::string fitting(std::initializer_list<std::string> texts, std::size_t columns) {
  const auto* const fits =
      std::find_if(texts.begin(), texts.end(), [=](const std::string& t) { return t.size() <= columns; });
  return fits == texts.end() ? std::string() : *fits;
}

// "0:07", "12:34", "3:00:00"
std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 3.6e8));
  const auto two = [](std::int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  if (whole < 3600) return std::to_string(whole / 60) + ":" + two(whole % 60);
  return std::to_string(whole / 3600) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
}

}  // namespace

Progress::Progress(std::string label, std::int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      enabled_(error_is_terminal() && !is_dumb_terminal()) {}

Progress::~Progress() {
  if (!drawn_) return;
  std::fputs(erase_line, stderr);
  set_last_words(STDERR_FILENO, nullptr);
}

void Progress::update(std::int64_t done, std::string_view note) {
  done_ = done;
  if (!enabled_ || done <= 0) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < quiet_time || (drawn_ && now - last_drawn_ < redraw_time)) return;
  set_last_words(STDERR_FILENO, erase_line);
  draw(std::chrono::duration<double>(now - start_).count(), note);
  drawn_ = true;
  last_drawn_ = now;
}

void Progress::draw(double seconds, std::string_view note) const {
  const double per_second = static_cast<double>(done_) / seconds;
  const double fraction = std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0);
  const double seconds_left = static_cast<double>(total_ - done_) / per_second;
  const std::string counts = with_commas(done_) + "/" + with_commas(total_) + " " + unit_ + "  ";
  const std::string left = time_text(seconds_left) + " left";
  const std::string all = counts + rate_text(per_second) + "/s  " + left;

  // A line that goes on in the next cannot be erased. Of its cells the blank before the bar and " 100 %  "
  // take 9.
  const auto columns = static_cast<std::size_t>(std::max(terminal_columns(), 12)) - 1 - 9;
  const std::string label = label_.substr(0, columns);
  const std::size_t room = columns - label.size();
  const std::string text =
      fitting({all + (note.empty() ? "" : "  " + std::string(note)), all, counts + left, left}, room);
  const int n_cells = std::clamp(static_cast<int>(room - text.size()), 0, 30);
  const int n_full = static_cast<int>(std::lround(fraction * n_cells));
  std::string bar;
  for (int i = 0; i < n_cells; ++i) bar += i < n_full ? "━" : "─";

  const Style style = error_style();
  std::fprintf(stderr, "%s%s %s%s%s %3d %%  %s", erase_line, label.c_str(), style.dim, bar.c_str(),
               style.plain, static_cast<int>(fraction * 100.0), text.c_str());
  std::fflush(stderr);
}

int CallProgress::call(void* user, double fraction) {
  static_cast<CallProgress*>(user)->bar_.update(fraction);
  return interrupted() ? 1 : 0;
}

}  // namespace cli
