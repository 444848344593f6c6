// WordPiece (BERT: google-research/bert, tokenization.py): the text is lowercased, stripped of accents and
// cut into words, each of which is covered from the left with the longest tokens there are, or else becomes
// the unknown token. So do longer words than models are trained with (transformers,
// max_input_chars_per_word). In GGUF a word's first token starts with U+2581, where BERT's own list marks the
// others with ##. As in llama.cpp marks of every kind go (BERT: those of kind Mn), and so does all but the
// first character of a decomposition: Hangul's vowels, some of Indic scripts.
#include <algorithm>

#include "lib/token/tokenizer.h"
#include "lib/token/unicode.h"

namespace runnel {
namespace {

constexpr VocabDefaults vocab_defaults = {
    .bos = 101, .eos = -1, .unk = 100, .sep = 102, .add_bos = true, .add_eos = false};

constexpr std::ptrdiff_t max_word_characters = 100;

std::ptrdiff_t n_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), begins_character);
}

struct Normalizer {
  bool lowercase;
  bool strip_accents;
};

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(Vocab vocab, Normalizer normalizer)
      : Tokenizer(std::move(vocab)), normalizer_(normalizer) {
    adds_space_prefix_ = true;
    begins_with_ = vocab_.bos;  // [CLS] and [SEP]
    ends_with_ = vocab_.sep;
  }

 private:
  Result<void> encode_text(std::string_view text, bool, std::vector<Token>& out) const override {
    std::string word(visible_space);
    const auto finish = [&] {
      if (word.size() > visible_space.size()) put_word(word, out);
      word = visible_space;
    };
    while (!text.empty()) {
      const Utf8Char c = decode_utf8(text);
      text.remove_prefix(c.bytes);
      const char32_t code = normalizer_.strip_accents ? decomposed_first(c.code) : c.code;
      if (is_space(code)) {
        finish();
        continue;
      }
      if (code == 0 || code == replacement_character || is_control(code)) continue;
      if (normalizer_.strip_accents && is_mark(code)) continue;
      const bool apart = stands_apart(code);
      if (apart) finish();
      append_utf8(normalizer_.lowercase ? to_lower(code) : code, word);
      if (apart) finish();
    }
    finish();
    return {};
  }

  // A word of its own: punctuation, ASCII symbols and ideographs.
  static bool stands_apart(char32_t code) {
    const bool ascii_symbol =
        code < 0x7F && std::string_view("$+<=>^`|~").find(static_cast<char>(code)) != std::string_view::npos;
    return ascii_symbol || is_punctuation(code) || is_ideograph(code);
  }

  void put_word(std::string_view word, std::vector<Token>& out) const {
    const std::size_t n_before = out.size();
    const bool is_too_long = n_characters(word) > 1 + max_word_characters;  // with the mark in front
    while (!word.empty() && !is_too_long) {
      Token token = -1;
      std::size_t n = std::min(word.size(), vocab_.max_token_bytes);
      while (n > 0 && (token = vocab_.index.find(word.substr(0, n))) < 0) --n;
      if (token < 0) {
        out.resize(n_before);
        break;
      }
      out.push_back(token);
      word.remove_prefix(n);
    }
    if (out.size() == n_before && vocab_.unk >= 0) out.push_back(vocab_.unk);
  }

  void decode_text(std::string_view text, std::string& out) const override { append_with_spaces(text, out); }

  Normalizer normalizer_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_wordpiece(const GgufFile& file) {
  RUNNEL_ASSIGN(Vocab vocab, Vocab::load(file, vocab_defaults));
  Normalizer normalizer{};
  RUNNEL_ASSIGN(normalizer.lowercase, file.get_bool("tokenizer.ggml.normalizer.lowercase", true));
  RUNNEL_ASSIGN(normalizer.strip_accents,
                file.get_bool("tokenizer.ggml.normalizer.strip_accents", normalizer.lowercase));
  return std::unique_ptr<Tokenizer>(std::make_unique<WordPieceTokenizer>(std::move(vocab), normalizer));
}

}  // namespace runnel
