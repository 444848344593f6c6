// Memory that tells on kernels which touch more than they should.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace runnel::simd {

// n elements that end exactly at an unreadable page, so that one element too far is a fault and not a wrong
// number; before them lies a pattern that intact() looks at. As n varies, so does the alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n) : n_(n) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (n * sizeof(T) + page - 1) / page * page;
    bytes_ = usable_ + page;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    base_ = static_cast<unsigned char*>(memory);
    std::memset(base_, pattern, usable_);
    if (mprotect(base_ + usable_, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<T*>(base_ + usable_ - n * sizeof(T));
  }
  ~Guarded() { munmap(base_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + n_; }

  bool intact() const {
    for (std::size_t i = 0; i < usable_ - n_ * sizeof(T); ++i) {
      if (base_[i] != pattern) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char pattern = 0xa5;
  std::size_t n_;
  std::size_t usable_;
  std::size_t bytes_;
  unsigned char* base_;
  T* data_;
};

}  // namespace runnel::simd
