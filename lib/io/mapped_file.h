// A file mapped read-only into memory.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "lib/result.h"

namespace runnel {

class MappedFile {
 public:
  // A file that cannot be read, or is not a regular file (a directory, a pipe, a device), is RUNNEL_IO with
  // the system's reason; an empty one is RUNNEL_BAD_FILE. Never waits for another process.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Aligned to a page. Valid, and at the same address, until the object that holds it at last goes. Pages are
  // read on first use: a file that somebody shortens meanwhile ends the process with SIGBUS, as with any
  // mapping.
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Gives back the memory that holds whole pages of these bytes of the file; they are read again when
  // touched. Does nothing where no file is mapped.
  void drop_pages(std::span<const std::byte> bytes) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace runnel
