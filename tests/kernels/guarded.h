// Memory that tells on kernels which touch more than they should.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace runnel::simd {

// Readable pages before an unreadable one. Those given back are kept for the next of that size: the quarter
// of a million buffers of a row's checks spend half of their time in the kernel where each is mapped anew.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes) : bytes_((bytes + page() - 1) / page() * page()) {
    std::vector<unsigned char*>& kept = kept_[bytes_];
    if (kept.empty()) kept.push_back(map(bytes_));
    begin_ = kept.back();
    kept.pop_back();
  }
  ~GuardedPages() { kept_[bytes_].push_back(begin_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  unsigned char* begin() const { return begin_; }
  unsigned char* end() const { return begin_ + bytes_; }

 private:
  static std::size_t page() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }
  static unsigned char* map(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    auto* const begin = static_cast<unsigned char*>(memory);
    if (mprotect(begin + bytes, page(), PROT_NONE) != 0) std::abort();
    return begin;
  }

  inline static std::map<std::size_t, std::vector<unsigned char*>> kept_;
  std::size_t bytes_;
  unsigned char* begin_;
};

// n elements that end exactly at an unreadable page, so that one element too far is a fault and not a wrong
// number; before them lies a pattern that intact() looks at. As n varies, so does the alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n)
      : n_(n), pages_(n * sizeof(T)), data_(reinterpret_cast<T*>(pages_.end() - n * sizeof(T))) {
    std::memset(pages_.begin(), pattern, static_cast<std::size_t>(pages_.end() - pages_.begin()));
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + n_; }

  bool intact() const {
    const unsigned char* const begin = pages_.begin();
    const auto* const data = reinterpret_cast<const unsigned char*>(data_);
    return std::all_of(begin, data, [](unsigned char byte) { return byte == pattern; });
  }

 private:
  static constexpr unsigned char pattern = 0xa5;
  std::size_t n_;
  GuardedPages pages_;
  T* data_;
};

}  // namespace runnel::simd
