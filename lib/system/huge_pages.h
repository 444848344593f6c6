// Huge pages for memory that is read over and over: the processor looks up one address where it looked up
// 512.
#pragma once
#include <cstddef>

namespace runnel {

// Makes huge pages of some memory, one at a time, each of them once. The memory should have been written all
// over: what was not takes memory from then on. Where the system cannot (Linux before 6.1, no memory in one
// piece) nothing changes.
class HugePages {
 public:
  HugePages() = default;
  HugePages(std::byte* begin, std::size_t n_bytes) noexcept;

  // The next one. Takes half a millisecond, and some where the system has to move others' pages. Nothing once
  // there are no more, or where one could not be made.
  void make_next() noexcept;

 private:
  std::byte* next_ = nullptr;
  std::size_t n_left_ = 0;
};

}  // namespace runnel
