#include "lib/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "lib/range.h"

namespace runnel {

namespace {

// Closes a descriptor at the end of the scope; a mapping outlives it.
struct Descriptor {
  int fd;
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error system_error(const std::string& path, const char* what, int code) {
  return {code == ENOMEM ? RUNNEL_NO_MEMORY : RUNNEL_IO,
          path + ": cannot be " + what + ": " + std::generic_category().message(code)};
}

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  if (path.empty()) return Error{RUNNEL_BAD_ARGUMENT, "the file to be read has an empty name"};
  // O_NONBLOCK: opening a pipe would otherwise wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.fd < 0) return system_error(path, "opened", errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return system_error(path, "examined", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{RUNNEL_IO, path + ": expected a regular file, found " + kind_name(status.st_mode)};
  }
  if (status.st_size == 0) return Error{RUNNEL_BAD_FILE, path + ": the file is empty"};
  if (static_cast<std::uint64_t>(status.st_size) > SIZE_MAX) return system_error(path, "mapped", EFBIG);

  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return system_error(path, "mapped", errno);
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

void MappedFile::drop_pages(std::span<const std::byte> bytes) const noexcept {
  if (data_ == nullptr) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = filled_up(address, page), end = (address + bytes.size()) / page * page;
  // A mere hint: without it the memory is given back when it is needed elsewhere.
  if (begin < end)
    ::madvise(const_cast<std::byte*>(bytes.data()) + (begin - address), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace runnel
