#include "transcript_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "errors.h"

namespace cli {
namespace {

constexpr const char* user_mark = "You: ";
constexpr const char* model_mark = "Model: ";
constexpr const char* further_line = "\n  ";

// Not so where a program was ended in the middle of an answer.
bool ends_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char last = '\n';
  if (file.seekg(-1, std::ios::end)) file.get(last);
  return last == '\n';
}

}  // namespace

std::string marked_message(bool from_user, std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string out = from_user ? user_mark : model_mark;
  for (const char c : text) {
    if (c == '\n') {
      out += further_line;
    } else {
      out += c;
    }
  }
  return out + "\n";
}

TranscriptFile::TranscriptFile(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::app | std::ios::binary);
  if (!file_) throw Failure(path_ + ": the transcript cannot be opened: " + std::strerror(errno));
  if (!ends_line(path_)) write("\n");
}

void TranscriptFile::add_user(std::string_view text) {
  write(marked_message(true, text));
  end_turn();
}

void TranscriptFile::add_answer(std::string_view piece) {
  if (!std::exchange(in_answer_, true)) write(model_mark);
  for (std::size_t newline; (newline = piece.find('\n')) != std::string_view::npos;) {
    if (newline > 0) write(std::exchange(line_ends_, "") + std::string(piece.substr(0, newline)));
    line_ends_ += further_line;
    piece.remove_prefix(newline + 1);
  }
  if (!piece.empty()) write(std::exchange(line_ends_, "") + std::string(piece));
}

void TranscriptFile::end_turn() {
  line_ends_.clear();
  if (std::exchange(in_answer_, false)) write("\n");
}

void TranscriptFile::remark(std::string_view text) {
  end_turn();
  write("(" + std::string(text) + ")\n");
  end_turn();
}

void TranscriptFile::write(std::string_view text) {
  if (path_.empty()) return;
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  file_.flush();
  if (file_) return;
  const std::string why = std::strerror(errno);
  file_.clear();  // what comes next is tried again
  throw Failure(path_ + ": the transcript cannot be written: " + why);
}

}  // namespace cli
