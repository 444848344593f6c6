#include "lib/io/memory_output.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace runnel {

Result<AnonymousMemory> AnonymousMemory::allocate(std::uint64_t n_bytes) {
  AnonymousMemory memory;
  if (n_bytes == 0) return memory;
  void* data = n_bytes > SIZE_MAX ? MAP_FAILED
                                  : ::mmap(nullptr, static_cast<std::size_t>(n_bytes), PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return error(RUNNEL_NO_MEMORY, "not enough memory for %llu bytes",
                 static_cast<unsigned long long>(n_bytes));
  }
#if defined(MADV_HUGEPAGE)
  ::madvise(data, static_cast<std::size_t>(n_bytes), MADV_HUGEPAGE);  // only for speed: may fail
#endif
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = static_cast<std::size_t>(n_bytes);
  return memory;
}

AnonymousMemory::AnonymousMemory(AnonymousMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AnonymousMemory& AnonymousMemory::operator=(AnonymousMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AnonymousMemory::~AnonymousMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<void> MemoryOutput::begin(std::uint64_t n_bytes) {
  RUNNEL_ASSIGN(*memory_, AnonymousMemory::allocate(n_bytes));
  return {};
}

Result<void> MemoryOutput::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const std::span<std::byte> all = memory_->bytes();
  if (bytes.size() > all.size() - n_bytes_) {
    return error(RUNNEL_INTERNAL, "%s: %zu bytes more than were announced", name_.c_str(),
                 bytes.size() - static_cast<std::size_t>(all.size() - n_bytes_));
  }
  std::memcpy(all.data() + n_bytes_, bytes.data(), bytes.size());
  n_bytes_ += bytes.size();
  return {};
}

Result<void> MemoryOutput::commit() {
  if (n_bytes_ == memory_->bytes().size()) return {};
  return error(RUNNEL_INTERNAL, "%s: %llu bytes were announced, %llu written", name_.c_str(),
               static_cast<unsigned long long>(memory_->bytes().size()),
               static_cast<unsigned long long>(n_bytes_));
}

}  // namespace runnel
