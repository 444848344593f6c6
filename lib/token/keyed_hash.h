// Hashes for tables over strings and numbers that a file chooses. Each table has a key of its own, which the
// file's author cannot know, so that no file can be made whose entries all fall on one slot.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace runnel {

class KeyedHash {
 public:
  KeyedHash();  // with a new key

  std::uint64_t operator()(std::uint64_t word) const noexcept { return mix(word ^ seed_, multiplier_); }

  std::uint64_t operator()(std::string_view text) const noexcept {
    const char* data = text.data();
    std::size_t n = text.size();
    std::uint64_t h = seed_ + n;  // tells apart texts that differ in zeros at the end
    for (; n >= 8; data += 8, n -= 8) h = mix(h ^ read<std::uint64_t>(data), multiplier_);
    return mix(mix(h ^ read_rest(data, n), multiplier_) ^ seed_, multiplier_);
  }

 private:
  __extension__ typedef unsigned __int128 Product;

  // Every bit of the result depends on every bit of both factors.
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    const Product product = Product{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  template <class T>
  static T read(const char* data) noexcept {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }

  // The last bytes, fewer than eight, without a loop or a call: the reads overlap.
  static std::uint64_t read_rest(const char* data, std::size_t n) noexcept {
    if (n >= 4) return std::uint64_t{read<std::uint32_t>(data)} << 32 | read<std::uint32_t>(data + n - 4);
    if (n == 0) return 0;
    const auto byte = [data](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(data[i])}; };
    return byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
  }

  std::uint64_t seed_;
  std::uint64_t multiplier_;  // odd
};

// The most full slots that follow each other in a table with linear probing, the last of which is followed by
// the first: no search looks at more than one beyond them. For tests.
template <class Slots, class IsFull>
std::size_t longest_run(const Slots& slots, IsFull is_full) {
  std::size_t longest = 0, run = 0;
  for (std::size_t i = 0; i < 2 * slots.size(); ++i) {
    run = is_full(slots[i % slots.size()]) ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

}  // namespace runnel
