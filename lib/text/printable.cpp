#include "lib/text/printable.h"

#include "lib/text/utf8.h"

namespace runnel {
namespace {

std::string escaped(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  constexpr const char* digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_chars) {
  std::string out;
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    const bool control = next.code < 0x20 || (next.code >= 0x7f && next.code < 0xa0);
    const std::size_t n_taken = next.valid && !control ? next.bytes : 1;
    const std::string piece = next.valid && !control ? std::string(text.substr(0, n_taken))
                                                     : escaped(static_cast<unsigned char>(text[0]));
    if (out.size() + piece.size() > max_chars) return out + "...";
    out += piece;
    text.remove_prefix(n_taken);
  }
  return out;
}

}  // namespace runnel
