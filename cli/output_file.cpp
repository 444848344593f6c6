#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "console.h"
#include "errors.h"
#include "interrupt.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr mode_t default_mode = 0666;  // less the process's umask
constexpr mode_t permission_bits = 0777;

// Whether the path leads to what is open there.
bool is_open_as(int file, const std::string& path) {
  struct stat named {};
  struct stat opened {};
  return stat(path.c_str(), &named) == 0 && fstat(file, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

// As /dev/stdout does, wherever the shell leads it.
bool is_standard_output(const std::string& path) { return is_open_as(STDOUT_FILENO, path); }

// Interrupted where a signal that is only noted ended the wait for a pipe's reader, and ReaderGone where that
// of standard output has gone.
[[noreturn]] void fail(const std::string& path, const char* what) {
  if (errno == EINTR && interrupted()) throw Interrupted{};
  if (errno == EPIPE && is_standard_output(path)) throw ReaderGone{};
  throw Failure(path + ": " + what + ": " + std::strerror(errno));
}

// What is opened in place of a file gets that one's permissions, and no others even for a moment.
std::FILE* open_in_place_of(const fs::file_status& replaced, const std::string& path) {
  const bool exists = fs::exists(replaced);
  const mode_t mode = exists ? static_cast<mode_t>(replaced.permissions()) & permission_bits : default_mode;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file >= 0 && exists) fchmod(file, mode);  // what the umask took away
  return stream_of(file, "wb");
}

// The file that a path leads to through links, or where it would be.
std::string follow_links(fs::path path) {
  constexpr int most_links = 40;  // as many as Linux follows: path_resolution(7)
  std::error_code no_link;
  for (int i = 0; i < most_links; ++i) {
    const fs::path target = fs::read_symlink(path, no_link);
    if (no_link) break;
    path = path.parent_path() / target;
  }
  return path.string();
}

// By its name it would be opened anew: a file from its start, over what is there.
std::FILE* open_standard_output() { return stream_of(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "wb"); }

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  const bool is_standard = is_standard_output(path_);
  const std::string target = follow_links(path_);
  // Not so an open file that has lost its name, to which /dev/fd/3 may lead.
  const bool is_named = fs::is_regular_file(status) && fs::equivalent(path_, target, ignored);
  const bool direct = is_standard || (fs::exists(status) && !is_named);
  if (direct) {
    written_path_ = path_;
    file_ = is_standard ? open_standard_output() : std::fopen(path_.c_str(), "wb");
  } else {
    path_ = target;
    open_temporary(status);
  }
  if (!file_) fail(path_, "cannot write");
  temporary_ = !direct;
}

// Under a name that nothing has, not even a link that somebody has put there. Of one as long as names can be
// the end is left out.
void OutputFile::open_temporary(const fs::file_status& replaced) {
  constexpr int most_tries = 100;
  const std::size_t n_folder = path_.rfind('/') + 1;
  for (int i = 0; i < most_tries && !file_; ++i) {
    const std::string suffix = ".part" + std::to_string(getpid()) + "-" + std::to_string(i);
    written_path_ = path_.substr(0, n_folder + NAME_MAX - suffix.size()) + suffix;
    file_ = open_in_place_of(replaced, written_path_);
    if (!file_ && errno != EEXIST) return;
  }
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
  if (temporary_) std::remove(written_path_.c_str());
}

void OutputFile::write(const void* data, std::size_t n_bytes) {
  if (std::fwrite(data, 1, n_bytes, file_) != n_bytes) fail(path_, "cannot write");
}

void OutputFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(path_, "cannot write");
  if (temporary_ && std::rename(written_path_.c_str(), path_.c_str()) != 0)
    fail(path_, "cannot rename the finished file to it");
  temporary_ = false;
}

std::FILE* stream_of(int file, const char* mode) {
  if (file < 0) return nullptr;
  std::FILE* stream = fdopen(file, mode);
  if (!stream) close(file);
  return stream;
}

void expect_writable(const std::string& path) {
  std::error_code none_yet;
  if (fs::is_other(fs::status(path, none_yet))) return;
  {
    const FinishFirst finish_first;  // no part of a file stays behind
    const OutputFile tried(path);
  }
  if (interrupted()) throw Interrupted{};
}

void write_file(const std::string& path, std::string_view content) {
  {
    const FinishFirst finish_first;  // no part of a file stays behind
    OutputFile file(path);
    file.write(content.data(), content.size());
    file.finish();
  }
  write_note("wrote " + path);
  if (interrupted()) throw Interrupted{};
}

void write_figures_and_pictures(const std::function<void()>& figures, const std::function<void()>& pictures) {
  try {
    figures();
  } catch (const ReaderGone&) {
    pictures();
    throw;
  }
  pictures();
}

std::int64_t file_bytes(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

void refuse_same_file(const std::string& written, const std::string& other, const char* what_the_other_is) {
  if (written.empty() || other.empty()) return;
  std::error_code none_yet;
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, none_yet), none_yet);
  };
  if (fs::equivalent(written, other, none_yet) || whole(written) == whole(other))
    throw UsageError(written + ": is the " + what_the_other_is + " too; name another file");
}

// What is written there would stand amid an answer or, in a file, be lost under it. Not so in /dev/null.
void refuse_standard_output(const std::string& path) {
  std::error_code none_yet;
  if (is_standard_output(path) && !fs::is_character_file(path, none_yet))
    throw UsageError(path + ": is where the answers go; name another file");
}

void refuse_standard_input(const std::string& path) {
  std::error_code none_yet;
  if (is_open_as(STDIN_FILENO, path) && fs::is_regular_file(path, none_yet))
    throw UsageError(path + ": is where the messages come from; name another file");
}

}  // namespace cli
