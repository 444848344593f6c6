// Memory that begins at a cache line. A line is as wide as the widest registers: what lies across two lines
// takes two accesses.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace runnel {

constexpr std::size_t cache_line = 64;  // bytes

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{cache_line};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, alignment); }
  bool operator==(const CacheLineAllocator&) const = default;
};

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

struct CacheLineDelete {
  void operator()(std::byte* p) const noexcept { CacheLineAllocator<std::byte>().deallocate(p, 0); }
};

// n bytes that nobody writes first: pages that are never used take no memory.
using AlignedBytes = std::unique_ptr<std::byte[], CacheLineDelete>;
inline AlignedBytes aligned_bytes(std::size_t n) {
  return AlignedBytes(CacheLineAllocator<std::byte>().allocate(n));
}

}  // namespace runnel
