// Text to token ids and back, by the rules a model's file holds (tokenizer.ggml.* keys) and as llama.cpp
// reads them. One file a kind: spm.cpp (SentencePiece BPE with byte fallback), bpe.cpp (byte-level BPE),
// wordpiece.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/gguf.h"
#include "lib/result.h"
#include "lib/text/utf8.h"
#include "lib/token/special_split.h"
#include "lib/token/vocab.h"

namespace runnel {

// A stretch of a text. In markup the names of special tokens are these tokens; elsewhere they are plain text,
// so that nobody ends a turn by typing its end.
struct TextPiece {
  std::string_view text;
  bool markup;
};

// What a text to be encoded follows.
enum class TextStart {
  bos,              // nothing: the token that begins a text is put in front, where the model has one
  after_special,    // a special token, or nothing
  after_stripping,  // a special token that swallows the white space after it
  inside            // ordinary text
};

// Immutable: any number of threads may use one at a time.
class Tokenizer {
 public:
  // RUNNEL_UNSUPPORTED for a kind or a pre-tokenizer that is not known; RUNNEL_BAD_FILE for damaged tables.
  // The tokenizer holds views into the file, which must outlive it.
  static Result<std::unique_ptr<Tokenizer>> load(const GgufFile& file);
  virtual ~Tokenizer() = default;

  // Appends the ids of text. flags: runnel_token_flags. Any bytes are accepted, also what is not UTF-8:
  // byte-level BPE reads each stray byte as U+FFFD, SentencePiece as the byte's own token, WordPiece not at
  // all. Texts over 512 MiB are RUNNEL_BAD_ARGUMENT. After an error `out` is as it was.
  Result<void> encode(std::string_view text, unsigned flags, std::vector<Token>& out) const;

  // The same for a part of a conversation in pieces: tokens may span their borders, and special tokens are
  // looked for in markup only. White space that a special token swallows is swallowed across them, as in one
  // text. A blank that markup writes after a special token is the space that SentencePiece puts there, not
  // one more: so Mistral's models were taught. No EOS is put after it.
  Result<void> encode_pieces(std::span<const TextPiece> pieces, TextStart start,
                             std::vector<Token>& out) const;
  // Whether n_bytes may come after n_before others that have passed.
  static Result<void> check_size(std::size_t n_before, std::size_t n_bytes);
  TextStart start_after(Token token) const;  // of a text that follows this token

  // Appends the bytes a token stands for (maybe part of a character); a control or unknown token adds nothing
  // unless `special`, then its name. An id out of range adds nothing.
  void decode(Token token, bool special, std::string& out) const;

  // The text of a whole sequence: decode() of each, less what belongs to the start of a text only (the space
  // that SentencePiece puts in front).
  std::string decode_all(const Token* tokens, std::size_t n, bool special) const;

  std::size_t n_vocab() const { return vocab_.size(); }
  bool is_special(Token token) const;       // control tokens
  bool ends_generation(Token token) const;  // end of text, end of turn, end of message
  Token bos() const { return vocab_.bos; }  // -1 when the model has none; the same for eos and eot
  Token eos() const { return vocab_.eos; }
  Token eot() const { return vocab_.eot; }
  bool adds_bos() const { return begins_with_ >= 0; }
  Token find(std::string_view text) const { return vocab_.index.find(text); }  // spelled exactly so; -1: none

 protected:
  explicit Tokenizer(Vocab vocab) : vocab_(std::move(vocab)), specials_(vocab_) {}

  // Appends the ids of a stretch of text without special tokens, not empty. space_prefix: where the model's
  // texts start with a space of their own, this one does.
  virtual Result<void> encode_text(std::string_view text, bool space_prefix,
                                   std::vector<Token>& out) const = 0;
  // Appends the bytes that a normal token of this text stands for.
  virtual void decode_text(std::string_view text, std::string& out) const = 0;

  enum class LeadingBlank { text, prefix };  // what a blank that markup writes after a special token is
  Result<void> encode_pieces(std::span<const TextPiece> pieces, TextStart start, LeadingBlank blank,
                             std::vector<Token>& out) const;
  Result<void> append_pieces(std::span<const TextPiece> pieces, TextStart start, LeadingBlank blank,
                             std::vector<Token>& out) const;

  Vocab vocab_;
  SpecialSplitter specials_;
  Token begins_with_ = -1;  // put around a text with RUNNEL_ADD_BOS; -1: nothing
  Token ends_with_ = -1;
  bool adds_space_prefix_ = false;  // encode_text() puts a space in front that decode_all() takes away
};

// The kinds; `file` has the table of tokens still to be read.
Result<std::unique_ptr<Tokenizer>> load_spm(const GgufFile& file);
Result<std::unique_ptr<Tokenizer>> load_bpe(const GgufFile& file);
Result<std::unique_ptr<Tokenizer>> load_wordpiece(const GgufFile& file);

// U+2581, which stands for a space in the tokens of SentencePiece and of WordPiece vocabularies in GGUF.
inline constexpr std::string_view visible_space = "\xE2\x96\x81";
void append_with_spaces(std::string_view text, std::string& out);  // with each U+2581 as a space

}  // namespace runnel
