// Huge pages for memory that is read over and over: the processor looks up one address where it looked up
// 512.
#pragma once
#include <cstddef>
#include <cstdint>

namespace runnel {

// Makes huge pages of some memory, a few at a time, each of them once. Parts that nobody has written yet take
// memory from then on. Where the system cannot (Linux before 6.1, no memory in one piece) nothing changes.
class HugePages {
 public:
  HugePages() = default;
  HugePages(std::byte* begin, std::size_t n_bytes) noexcept;

  // The next n, n >= 0. Each takes a quarter of a millisecond, or some where the system has to move others'
  // pages, or a virtual machine gets that memory from its host only now. Nothing once there are no more, or
  // where one could not be made.
  void make(std::int64_t n) noexcept;

 private:
  std::byte* next_ = nullptr;
  std::size_t n_left_ = 0;
};

}  // namespace runnel
