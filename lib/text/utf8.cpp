#include "lib/text/utf8.h"

#include <array>

namespace runnel {
namespace {

struct Form {
  std::uint32_t bytes;  // 0: no character starts so
  std::uint8_t min2;    // range of the second byte, which excludes overlong forms, surrogates and > U+10FFFF
  std::uint8_t max2;
};

Form form_of(std::uint8_t first) noexcept {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first < 0xF0)
    return {3, first == 0xE0 ? std::uint8_t{0xA0} : std::uint8_t{0x80},
            first == 0xED ? std::uint8_t{0x9F} : std::uint8_t{0xBF}};
  if (first < 0xF5)
    return {4, first == 0xF0 ? std::uint8_t{0x90} : std::uint8_t{0x80},
            first == 0xF4 ? std::uint8_t{0x8F} : std::uint8_t{0xBF}};
  return {0, 0, 0};
}

std::uint8_t byte_at(std::string_view text, std::size_t i) noexcept {
  return static_cast<std::uint8_t>(text[i]);
}

// Bytes at the start of text, whose first has this form, that are, or could become, one character; 0 when
// none can.
std::size_t plausible_bytes(std::string_view text, const Form& form) noexcept {
  std::size_t n = form.bytes == 0 ? 0 : 1;
  while (n < form.bytes && n < text.size()) {
    const std::uint8_t low = n == 1 ? form.min2 : 0x80;
    const std::uint8_t high = n == 1 ? form.max2 : 0xBF;
    if (byte_at(text, n) < low || byte_at(text, n) > high) return 0;
    ++n;
  }
  return n;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) noexcept {
  const Form form = form_of(byte_at(text, 0));
  const std::size_t n = plausible_bytes(text, form);
  if (n == 0 || n < form.bytes) return {replacement_character, 1, false};
  constexpr std::array<std::uint8_t, 5> payload = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code = byte_at(text, 0) & payload[n];
  for (std::size_t i = 1; i < n; ++i) code = code << 6 | (byte_at(text, i) & 0x3F);
  return {code, static_cast<std::uint32_t>(n), true};
}

void append_utf8(char32_t code, std::string& out) {
  const auto put = [&out](char32_t bits) {
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(bits)));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (!next.valid) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  std::size_t good = 0;  // text before it is valid and, once storage is in use, already copied
  bool copied = false;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(i));
    if (!c.valid) {
      if (!copied) storage.clear();
      copied = true;
      storage.append(text.substr(good, i - good));
      append_utf8(replacement_character, storage);
      good = i + 1;
    }
    i += c.bytes;
  }
  if (!copied) return text;
  storage.append(text.substr(good));
  return storage;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    pending_.push_back(byte);
    // What cannot go on gives up its first byte; the rest may start a character of its own.
    while (!pending_.empty()) {
      const Form form = form_of(byte_at(pending_, 0));
      const std::size_t n = plausible_bytes(pending_, form);
      if (n == 0) {
        append_utf8(replacement_character, out);
        pending_.erase(0, 1);
        continue;
      }
      if (n == form.bytes) {
        out.append(pending_, 0, n);
        pending_.erase(0, n);
        continue;
      }
      break;
    }
  }
}

void Utf8Stream::flush(std::string& out) {
  if (!pending_.empty()) append_utf8(replacement_character, out);
  pending_.clear();
}

}  // namespace runnel
