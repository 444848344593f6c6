// The tables of a vocabulary as the tokenizer.ggml.* keys hold them, checked, and what follows from them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/io/gguf.h"
#include "lib/result.h"
#include "lib/token/token_index.h"

namespace runnel {

using Token = std::int32_t;

// What a token is for; a set of bits.
enum TokenAttribute : std::uint8_t {
  token_normal = 1,
  token_unknown = 2,
  token_control = 4,
  token_user_defined = 8,
  token_byte = 16,
  token_strips_left = 32,   // swallows the white space before it in a text
  token_strips_right = 64,  // ... and after it
};

// Special ids and rules where the file does not say; -1 means none.
struct VocabDefaults {
  Token bos = -1;
  Token eos = -1;
  Token unk = -1;
  Token sep = -1;
  bool add_bos = false;
  bool add_eos = false;
};

struct Vocab {
  // RUNNEL_BAD_FILE for tables that contradict each other. Texts are views into the file, which must outlive
  // the vocabulary.
  static Result<Vocab> load(const GgufFile& file, const VocabDefaults& defaults);

  Vocab() = default;
  Vocab(Vocab&&) = default;  // not to be copied: the index points into texts
  Vocab& operator=(Vocab&&) = default;

  std::size_t size() const { return texts.size(); }
  bool contains(Token token) const { return token >= 0 && static_cast<std::size_t>(token) < texts.size(); }
  std::string_view text(Token token) const { return texts[static_cast<std::size_t>(token)]; }
  bool has(Token token, unsigned attributes) const {
    return (attributes_of[static_cast<std::size_t>(token)] & attributes) != 0;
  }

  std::vector<std::string_view> texts;      // [n_vocab]
  std::vector<float> scores;                // [n_vocab]; zeros when the file has none
  std::vector<std::uint8_t> attributes_of;  // [n_vocab] sets of TokenAttribute
  TokenIndex index;                         // of texts; the first of equal ones counts
  std::size_t max_token_bytes = 0;

  Token bos = -1, eos = -1, eot = -1, unk = -1, sep = -1;
  bool add_bos = false, add_eos = false;
  std::vector<Token> end_ids;  // tokens that end generation, sorted
  // Control, unknown and user-defined tokens: longest text first, then by id.
  std::vector<Token> partition_ids;
};

// The byte that "<0x0A>" and its kin stand for; -1 for any other text.
int byte_of_token(std::string_view text) noexcept;

}  // namespace runnel
