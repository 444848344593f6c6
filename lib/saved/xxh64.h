// XXH64 (Yann Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md): a fast 64-bit hash that tells damaged
// bytes from whole ones. No protection against people who mean harm.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace runnel {

class Xxh64 {
 public:
  explicit Xxh64(std::uint64_t seed = 0);

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  std::uint64_t digest() const;  // of all bytes so far

 private:
  static constexpr std::size_t stripe = 32;

  void consume(const std::byte* bytes);  // [stripe]

  std::uint64_t seed_;
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, stripe> held_{};  // the last bytes, not a whole stripe
  std::uint64_t n_bytes_ = 0;
};

}  // namespace runnel
