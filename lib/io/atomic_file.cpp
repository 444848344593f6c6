#include "lib/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace runnel {

namespace {

constexpr mode_t default_mode = 0666;  // less the process's umask
constexpr mode_t permission_bits = 0777;

// The file that a path leads to through links; the path itself where there is none yet.
std::string resolve_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved != nullptr ? resolved.get() : path;
}

bool is_same_file(const std::string& path, const struct stat& other) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_dev == other.st_dev && status.st_ino == other.st_ino;
}

Error overwrites_input(const std::string& path, const std::string& input) {
  return {RUNNEL_BAD_ARGUMENT,
          path + ": cannot be written: it is the same file as " + input + ", which is read"};
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, const std::vector<std::string>& inputs) {
  AtomicFile file;
  file.path_ = resolve_links(path);
  struct stat target {};
  const bool exists = ::stat(file.path_.c_str(), &target) == 0;
  if (exists && !S_ISREG(target.st_mode)) {
    return Error{RUNNEL_BAD_ARGUMENT, path + ": cannot be written: it exists and is not a regular file"};
  }
  for (const std::string& input : inputs) {
    if (exists && is_same_file(input, target)) return overwrites_input(path, input);
  }
  RUNNEL_TRY(file.open_partial(exists ? target.st_mode & permission_bits : default_mode));
  return file;
}

Result<void> AtomicFile::open_partial(mode_t mode) {
  constexpr int max_attempts = 100;  // other writers of the same process, or leftovers of a killed one
  int code = EEXIST;
  const std::string prefix = path_ + ".partial-" + std::to_string(::getpid()) + "-";
  for (int attempt = 0; attempt < max_attempts && code == EEXIST; ++attempt) {
    std::string name = prefix + std::to_string(attempt);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ >= 0) {
      partial_ = std::move(name);
      return {};
    }
    code = errno;
  }
  return failed("created", code);
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
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
  if (::fsync(fd_) != 0) return failed("flushed to the disk", errno);
  if (::close(std::exchange(fd_, -1)) != 0) return failed("closed", errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return failed("renamed to its final name", errno);
  partial_.clear();
  return {};
}

Error AtomicFile::failed(const char* what, int code) const {
  return {RUNNEL_IO, path_ + ": cannot be " + what + " (after " + std::to_string(n_bytes_) +
                         " bytes): " + std::generic_category().message(code)};
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!partial_.empty()) ::unlink(partial_.c_str());
  partial_.clear();
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
