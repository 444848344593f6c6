// UTF-8 as the Unicode Standard defines it (section 3.9, table 3-7): no overlong forms, no surrogates,
// nothing past U+10FFFF.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace runnel {

inline constexpr char32_t replacement_character = 0xFFFD;

struct Utf8Char {
  char32_t code;        // U+FFFD where the bytes are not UTF-8
  std::uint32_t bytes;  // taken from the text; 1 where they are not UTF-8
  bool valid;
};

// In valid UTF-8: not one of the bytes that go on with a character.
constexpr bool begins_character(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// The character at the start of text, which must not be empty.
Utf8Char decode_utf8(std::string_view text) noexcept;

// code <= U+10FFFF.
void append_utf8(char32_t code, std::string& out);

bool is_utf8(std::string_view text) noexcept;

// Every byte that belongs to no character becomes U+FFFD. Returns text itself when it is valid; otherwise
// `storage` holds the result.
std::string_view valid_utf8(std::string_view text, std::string& storage);

// Holds back the bytes of a character until it is whole. Bytes that can never become one turn into U+FFFD.
class Utf8Stream {
 public:
  // Appends `bytes` and moves all whole characters to the end of `out`.
  void push(std::string_view bytes, std::string& out);
  void flush(std::string& out);  // end of text: what is held back becomes U+FFFD
  void clear() { pending_.clear(); }
  std::string_view pending() const { return pending_; }

 private:
  std::string pending_;  // the first bytes of one character, 3 at most
};

}  // namespace runnel
