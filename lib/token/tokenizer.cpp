#include "lib/token/tokenizer.h"

#include <algorithm>

#include "lib/text/printable.h"

namespace runnel {

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const GgufFile& file) {
  RUNNEL_ASSIGN(const std::string_view kind, file.get_string("tokenizer.ggml.model"));
  if (kind == "llama") return load_spm(file);
  if (kind == "gpt2") return load_bpe(file);
  if (kind == "bert") return load_wordpiece(file);
  return error(RUNNEL_UNSUPPORTED, "%s: tokenizer.ggml.model is \"%s\", expected one of: llama, gpt2, bert",
               file.name().c_str(), printable(kind, 64).c_str());
}

Result<void> Tokenizer::encode(std::string_view text, unsigned flags, std::vector<Token>& out) const {
  const bool whole = (flags & RUNNEL_ADD_BOS) != 0;
  const TextPiece piece = {text, (flags & RUNNEL_PARSE_SPECIAL) != 0};
  const TextStart start = whole ? TextStart::bos : TextStart::after_special;
  RUNNEL_TRY(encode_pieces({&piece, 1}, start, LeadingBlank::text, out));
  if (whole && ends_with_ >= 0) out.push_back(ends_with_);
  return {};
}

Result<void> Tokenizer::encode_pieces(std::span<const TextPiece> pieces, TextStart start,
                                      std::vector<Token>& out) const {
  return encode_pieces(pieces, start, LeadingBlank::prefix, out);
}

TextStart Tokenizer::start_after(Token token) const {
  const bool special = vocab_.contains(token) && vocab_.has(token, token_control | token_user_defined);
  if (!special) return TextStart::inside;
  return vocab_.has(token, token_strips_right) ? TextStart::after_stripping : TextStart::after_special;
}

Result<void> Tokenizer::check_size(std::size_t n_before, std::size_t n_bytes) {
  // Spaces and stray bytes grow to three bytes inside, which are counted in 31 bits.
  constexpr std::size_t max_bytes = std::size_t{1} << 29;
  if (n_bytes <= max_bytes - n_before) return {};
  return error(RUNNEL_BAD_ARGUMENT, "a text of %zu bytes is too long for one call, expected %zu at most",
               n_before + n_bytes, max_bytes);
}

Result<void> Tokenizer::encode_pieces(std::span<const TextPiece> pieces, TextStart start, LeadingBlank blank,
                                      std::vector<Token>& out) const {
  std::size_t n_bytes = 0;
  for (const TextPiece& piece : pieces) {
    RUNNEL_TRY(check_size(n_bytes, piece.text.size()));
    n_bytes += piece.text.size();
  }
  const std::size_t n_before = out.size();
  auto done = append_pieces(pieces, start, blank, out);
  if (!done) out.resize(n_before);
  return done;
}

Result<void> Tokenizer::append_pieces(std::span<const TextPiece> pieces, TextStart start, LeadingBlank blank,
                                      std::vector<Token>& out) const {
  if (start == TextStart::bos && begins_with_ >= 0) out.push_back(begins_with_);
  bool space_prefix = start != TextStart::inside;
  bool strips = start == TextStart::after_stripping;
  std::string plain;  // since the last special token
  const auto encode_plain = [&]() -> Result<void> {
    if (plain.empty()) return {};
    RUNNEL_TRY(encode_text(plain, space_prefix, out));
    plain.clear();
    return {};
  };
  for (const TextPiece& piece : pieces) {
    for (Fragment fragment : specials_.split(piece.text, piece.markup)) {
      if (fragment.token < 0) {
        if (strips) fragment.text = without_leading_space(fragment.text);
        if (fragment.text.empty()) continue;
        strips = false;
        const bool has_prefix = blank == LeadingBlank::prefix && piece.markup && fragment.text.front() == ' ';
        if (plain.empty() && has_prefix) space_prefix = false;
        plain += fragment.text;
        continue;
      }
      RUNNEL_TRY(encode_plain());
      out.push_back(fragment.token);
      space_prefix = true;
      strips = vocab_.has(fragment.token, token_strips_right);
    }
  }
  return encode_plain();
}

void Tokenizer::decode(Token token, bool special, std::string& out) const {
  if (!vocab_.contains(token)) return;
  const std::string_view text = vocab_.text(token);
  if (vocab_.has(token, token_control | token_unknown)) {
    if (special) out += text;
  } else if (vocab_.has(token, token_user_defined)) {
    out += text;
  } else if (const int byte = vocab_.has(token, token_byte) ? byte_of_token(text) : -1; byte >= 0) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  } else if (vocab_.has(token, token_normal | token_byte)) {
    decode_text(text, out);
  }
}

std::string Tokenizer::decode_all(const Token* tokens, std::size_t n, bool special) const {
  std::string out;
  bool at_start = adds_space_prefix_;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t begin = out.size();
    decode(tokens[i], special, out);
    if (!at_start || is_special(tokens[i]) || out.size() == begin) continue;
    if (out[begin] == ' ') out.erase(begin, 1);
    at_start = false;
  }
  return out;
}

bool Tokenizer::is_special(Token token) const {
  return vocab_.contains(token) && vocab_.has(token, token_control);
}

bool Tokenizer::ends_generation(Token token) const {
  return std::binary_search(vocab_.end_ids.begin(), vocab_.end_ids.end(), token);
}

void append_with_spaces(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t at = text.find(visible_space);
    out += text.substr(0, at);
    if (at == text.npos) return;
    out += ' ';
    text.remove_prefix(at + visible_space.size());
  }
}

}  // namespace runnel
