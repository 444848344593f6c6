// Small vocabularies in memory for the tokenizers' tests.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf_builder.h"
#include "lib/token/tokenizer.h"

namespace runnel::test {

using Tokens = std::vector<Token>;
using Strings = std::vector<std::string>;

// Values of tokenizer.ggml.token_type.
enum TokenType : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// A tokenizer with the file it looks into; or the error of loading either.
class LoadedTokenizer {
 public:
  explicit LoadedTokenizer(const GgufBuilder& builder) : bytes_(builder.build()) {
    auto file = GgufFile::parse(bytes_, "test.gguf");
    if (!file) {
      error_ = file.error();
      return;
    }
    file_ = std::make_unique<GgufFile>(std::move(*file));
    auto tokenizer = Tokenizer::load(*file_);
    if (tokenizer) {
      tokenizer_ = std::move(*tokenizer);
    } else {
      error_ = tokenizer.error();
    }
  }

  explicit operator bool() const { return tokenizer_ != nullptr; }
  const Error& error() const { return error_; }
  const Tokenizer* operator->() const { return tokenizer_.get(); }

  Tokens encode(std::string_view text, unsigned flags = RUNNEL_TEXT_ONLY) const {
    Tokens tokens;
    if (const auto done = tokenizer_->encode(text, flags, tokens); !done) return {-1};
    return tokens;
  }

  std::string decode(const Tokens& tokens, bool special = false) const {
    return tokenizer_->decode_all(tokens.data(), tokens.size(), special);
  }

  // The texts of the tokens, which tell more than ids when a test fails.
  Strings spell(std::string_view text, unsigned flags = RUNNEL_TEXT_ONLY) const {
    Strings spelled;
    for (const Token token : encode(text, flags)) {
      std::string piece;
      tokenizer_->decode(token, true, piece);
      spelled.push_back(piece);
    }
    return spelled;
  }

 private:
  std::vector<std::byte> bytes_;
  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Error error_{RUNNEL_OK, ""};
};

inline GgufBuilder vocabulary(std::string_view kind, const Strings& tokens,
                              const std::vector<std::int32_t>& types = {}) {
  GgufBuilder builder;
  builder.add("tokenizer.ggml.model", kind).add_array("tokenizer.ggml.tokens", tokens);
  if (!types.empty()) builder.add_array("tokenizer.ggml.token_type", types);
  return builder;
}

// GPT-2's alphabet: the spelling of each byte in tokens and merges, in the order of the bytes.
inline Strings byte_alphabet() {
  Strings spellings;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    std::string text;
    append_utf8(itself ? byte : next++, text);
    spellings.push_back(text);
  }
  return spellings;
}

}  // namespace runnel::test
