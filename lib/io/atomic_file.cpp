#include "lib/io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace runnel {

namespace {

constexpr mode_t default_mode = 0666;  // less the process's umask
constexpr mode_t permission_bits = 0777;

// What a link holds; empty where the path is none.
std::string link_target(const std::string& path) {
  char text[4096];  // PATH_MAX of Linux
  const ssize_t n = ::readlink(path.c_str(), text, sizeof text);
  return n > 0 && n < static_cast<ssize_t>(sizeof text) ? std::string(text, static_cast<std::size_t>(n)) : "";
}

// Bytes of a path up to the name in its folder.
std::size_t folder_size(const std::string& path) { return path.rfind('/') + 1; }

// Where a path leads through links at the end of which there is no file yet.
std::string follow_dangling(std::string path) {
  constexpr int max_links = 40;  // as many as Linux follows: path_resolution(7)
  for (int i = 0; i < max_links; ++i) {
    const std::string target = link_target(path);
    if (target.empty()) break;
    const std::size_t n_folder = target.front() == '/' ? 0 : folder_size(path);
    path.replace(n_folder, std::string::npos, target);
  }
  return path;
}

// The file that a path leads to through links, or where it would be.
std::string resolve_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved != nullptr ? resolved.get() : follow_dangling(path);
}

bool is_same_file(const std::string& path, const struct stat& other) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_dev == other.st_dev && status.st_ino == other.st_ino;
}

// The one of some files that a path leads to; null where it leads to none of them.
const std::string* find_same_file(const std::vector<std::string>& files, const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return nullptr;
  const auto same = std::find_if(files.begin(), files.end(),
                                 [&](const std::string& file) { return is_same_file(file, status); });
  return same != files.end() ? &*same : nullptr;
}

Error overwrites_input(const std::string& path, const std::string& input) {
  return {RUNNEL_BAD_ARGUMENT,
          path + ": cannot be written: it is the same file as " + input + ", which is read"};
}

// Next to the target. Of a name as long as names can be the end is left out.
std::string partial_name(const std::string& path, int attempt) {
  const std::string suffix = ".partial-" + std::to_string(attempt);
  return path.substr(0, folder_size(path) + NAME_MAX - suffix.size()) + suffix;
}

// Makes the disk keep the new name, too: until then a file that is renamed may have its old one after a power
// cut. Some file systems cannot, or do so by themselves.
void flush_folder(const std::string& path) {
  const std::string folder = path.substr(0, folder_size(path));
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// Removes the partial file of a writer that is no more: it would hold the lock. A file system without locks
// keeps such files.
void remove_abandoned(const std::string& name) {
  const int fd = ::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {};
  const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same_file(name, status)) ::unlink(name.c_str());
  ::close(fd);
}

// Gives a new file permissions that the umask took from it. Some file systems have none to give.
void set_permissions(int fd, mode_t mode) {
  struct stat status {};
  if (::fstat(fd, &status) == 0 && (status.st_mode & permission_bits) != mode) ::fchmod(fd, mode);
}

// Locks a new partial file for as long as it is open. False when another writer took it for an abandoned one.
bool keep_from_removal(int fd) {
  struct stat status {};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  return ::fstat(fd, &status) != 0 || status.st_nlink > 0;
}

// What grows beyond the limit of the process (RLIMIT_FSIZE) is an error here and no signal, which would end
// the process: it comes to the thread that writes, and is taken from it.
class SizeSignalBlocked {
 public:
  SizeSignalBlocked() noexcept {
    sigemptyset(&size_signal_);
    sigaddset(&size_signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &size_signal_, &before_);
  }
  ~SizeSignalBlocked() {
    const timespec at_once{};
    if (sigismember(&before_, SIGXFSZ) == 0) sigtimedwait(&size_signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SizeSignalBlocked(const SizeSignalBlocked&) = delete;
  SizeSignalBlocked& operator=(const SizeSignalBlocked&) = delete;

 private:
  sigset_t size_signal_{}, before_{};
};

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, const std::vector<std::string>& inputs) {
  if (path.empty()) return Error{RUNNEL_BAD_ARGUMENT, "the file to be written has an empty name"};
  AtomicFile file;
  file.path_ = path;
  struct stat target {};
  // By the path as it is: the system may refuse to follow a link, and links may go round in circles.
  const bool exists = ::stat(path.c_str(), &target) == 0;
  if (!exists && errno != ENOENT) return file.failed("created", errno);
  if (exists && !S_ISREG(target.st_mode)) {
    return Error{RUNNEL_BAD_ARGUMENT, path + ": cannot be written: it exists and is not a regular file"};
  }
  if (const std::string* input = find_same_file(inputs, path)) return overwrites_input(path, *input);
  file.path_ = resolve_links(path);
  const mode_t mode = target.st_mode & permission_bits;
  RUNNEL_TRY(file.open_partial(exists ? mode : default_mode, inputs));
  if (exists) set_permissions(file.fd_, mode);
  return file;
}

Result<void> AtomicFile::open_partial(mode_t mode, const std::vector<std::string>& inputs) {
  constexpr int max_attempts = 100;  // as many writers of one name at once
  int code = EEXIST;
  for (int attempt = 0; attempt < max_attempts && code == EEXIST; ++attempt) {
    std::string name = partial_name(path_, attempt);
    if (find_same_file(inputs, name)) continue;  // left by a writer that was killed, and taken for a file
    remove_abandoned(name);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ >= 0 && keep_from_removal(fd_)) {
      partial_ = std::move(name);
      return {};
    }
    code = fd_ >= 0 ? EEXIST : errno;  // taken from us before it was locked: to the next name
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  return failed("created", code);
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  const SizeSignalBlocked blocked;
  constexpr std::size_t max_chunk = std::size_t{1} << 30;  // the system takes at most 2 GiB at once
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), max_chunk));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("written", errno);
    n_bytes_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  while (::fsync(fd_) != 0)
    if (errno != EINTR) return failed("flushed to the disk", errno);
  // Closed after that: a partial file that nobody holds open may be taken away.
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return failed("renamed to its final name", errno);
  partial_.clear();
  ::close(std::exchange(fd_, -1));
  flush_folder(path_);
  return {};
}

Error AtomicFile::failed(const char* what, int code) const {
  const std::string after = n_bytes_ > 0 ? " (after " + std::to_string(n_bytes_) + " bytes)" : "";
  return {RUNNEL_IO, path_ + ": cannot be " + what + after + ": " + std::generic_category().message(code)};
}

// Closed after it is gone: the name of a partial file that nobody holds open may be another writer's by then.
void AtomicFile::discard() noexcept {
  if (!partial_.empty()) ::unlink(partial_.c_str());
  partial_.clear();
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      fd_(std::exchange(other.fd_, -1)),
      n_bytes_(other.n_bytes_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  partial_ = std::exchange(other.partial_, {});
  fd_ = std::exchange(other.fd_, -1);
  n_bytes_ = other.n_bytes_;
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

}  // namespace runnel
