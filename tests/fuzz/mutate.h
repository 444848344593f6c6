// Damaged versions of a file, the same ones every time: cut short, or with a few bytes changed. Each comes in
// memory of exactly its size, aligned to 32 bytes, so that a sanitizer sees the first byte read past the end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>

namespace runnel::test {

using Bytes = std::span<const std::byte>;

class AlignedCopy {
 public:
  explicit AlignedCopy(Bytes bytes) : size_(bytes.size()) {
    constexpr std::size_t alignment = 32;  // what runnel_model_open_memory asks for
    void* memory = nullptr;
    if (::posix_memalign(&memory, alignment, size_ > 0 ? size_ : 1) != 0) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(memory));
    if (size_ > 0) std::memcpy(memory, bytes.data(), size_);
  }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_;
};

// In all of these `visit` is called as visit(Bytes damaged, const std::string& what_was_done).

// Cuts at n places spread evenly over the file, its start included and its end not.
template <class Visit>
void for_cuts(Bytes file, std::size_t n, Visit visit) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t size = file.size() * i / n;
    AlignedCopy copy(file.first(size));
    visit(Bytes(copy.bytes()), "cut to " + std::to_string(size) + " bytes");
  }
}

namespace internal {

template <class T, class Visit>
void with_value_at(AlignedCopy& copy, std::size_t offset, T value, Visit visit) {
  std::byte kept[sizeof(T)];
  std::byte* place = copy.bytes().data() + offset;
  std::memcpy(kept, place, sizeof(T));
  if (std::memcmp(kept, &value, sizeof(T)) == 0) return;
  std::memcpy(place, &value, sizeof(T));
  visit(Bytes(copy.bytes()), std::to_string(8 * sizeof(T)) + " bits at " + std::to_string(offset) +
                                 " set to " + std::to_string(value));
  std::memcpy(place, kept, sizeof(T));
}

}  // namespace internal

// n changes of one byte each, anywhere in the first `within` bytes, to another value.
template <class Visit>
void for_random_bytes(Bytes file, std::size_t within, std::size_t n, Visit visit) {
  AlignedCopy copy(file);
  std::mt19937 random(20240229);  // its numbers, unlike those of distributions, are the same everywhere
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t offset = random() % within;
    const auto old = static_cast<std::uint8_t>(file[offset]);
    const auto value = static_cast<std::uint8_t>(old + 1 + random() % 255);
    internal::with_value_at(copy, offset, value, visit);
  }
}

// Every byte of the first `within` in turn, each bit of it flipped, and set to values that are limits of
// something.
template <class Visit>
void for_every_byte(Bytes file, std::size_t within, Visit visit) {
  AlignedCopy copy(file);
  for (std::size_t offset = 0; offset < within; ++offset) {
    const auto old = static_cast<std::uint8_t>(file[offset]);
    for (int bit = 0; bit < 8; ++bit) {
      internal::with_value_at(copy, offset, static_cast<std::uint8_t>(old ^ (1U << bit)), visit);
    }
    for (const int value : {0x00, 0x7f, 0xff}) {
      internal::with_value_at(copy, offset, static_cast<std::uint8_t>(value), visit);
    }
  }
}

// Numbers that make sums and products overflow, at every place where a count, size or offset may be.
template <class Visit>
void for_every_word(Bytes file, std::size_t within, Visit visit) {
  AlignedCopy copy(file);
  for (std::size_t offset = 0; offset + sizeof(std::uint64_t) <= within; ++offset) {
    for (const std::uint64_t value :
         {std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 61,
          std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{31}}) {
      internal::with_value_at(copy, offset, value, visit);
    }
  }
}

}  // namespace runnel::test
