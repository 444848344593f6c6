#include "tests/support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> n_so_far{0};
std::atomic<std::size_t> in_use{0};
std::atomic<std::size_t> peak{0};
std::atomic<std::size_t> in_use_at_reset{0};

std::atomic<long> n_left{-1};          // allocations that still succeed; below zero: all do
std::atomic<bool> refuses_all{false};  // whether all fail after those, or one

bool is_refused() noexcept {
  long n = n_left;
  while (n > 0 && !n_left.compare_exchange_weak(n, n - 1)) continue;
  if (n != 0) return false;
  if (!refuses_all) n_left = -1;
  return true;
}

void* allocate(std::size_t n, std::size_t alignment) noexcept {
  if (is_refused()) return nullptr;
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment, n > 0 ? n : 1) != 0) return nullptr;
  ++n_so_far;
  const std::size_t now = in_use += ::malloc_usable_size(memory);
  for (std::size_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) continue;
  return memory;
}

void* allocate_or_throw(std::size_t n, std::size_t alignment) {
  if (void* memory = allocate(n, alignment)) return memory;
  throw std::bad_alloc();
}

void release(void* memory) noexcept {
  if (memory != nullptr) in_use -= ::malloc_usable_size(memory);
  std::free(memory);
}

constexpr std::size_t default_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

namespace runnel::test {

std::size_t n_allocations() { return n_so_far; }

std::size_t allocated_bytes() { return in_use; }

std::size_t allocation_peak() { return peak - in_use_at_reset; }

void reset_allocation_peak() {
  in_use_at_reset = in_use.load();
  peak = in_use.load();
}

void refuse_allocations_after(long n, Refuse which) {
  refuses_all = which == Refuse::all;
  n_left = n;
}

void allow_allocations() { n_left = -1; }

}  // namespace runnel::test

// The array forms call these.
void* operator new(std::size_t n) { return allocate_or_throw(n, default_alignment); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, default_alignment); }
void* operator new(std::size_t n, std::align_val_t a) {
  return allocate_or_throw(n, static_cast<std::size_t>(a));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
