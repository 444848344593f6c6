// Byte-level BPE (GPT-2: Radford et al. 2019; Sennrich et al. 2016, arXiv:1508.07909): patterns cut the text
// into pieces, and in each piece pairs of neighbours are merged by the file's list of merges, the earliest in
// the list first, the leftmost of equal ones first. Tokens and merges are spelled in GPT-2's alphabet of 256
// printable characters, one a byte.
#include <array>
#include <string>
#include <unordered_map>

#include "lib/text/printable.h"
#include "lib/token/keyed_hash.h"
#include "lib/token/merge_table.h"
#include "lib/token/pre_tokenizer.h"
#include "lib/token/tokenizer.h"

namespace runnel {
namespace {

// GPT-2's alphabet (openai/gpt-2, encoder.py, bytes_to_unicode): printable Latin-1 characters stand for
// themselves, the other bytes, in order, for U+0100 and on.
struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 0x200> byte_of{};  // -1 for characters that stand for none

  constexpr Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      character[byte] = itself ? byte : next++;
      byte_of[character[byte]] = static_cast<int>(byte);
    }
  }
};
constexpr Alphabet alphabet;

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Vocab vocab, PreTokenizer pre, bool ignore_merges)
      : Tokenizer(std::move(vocab)), pre_(std::move(pre)), ignore_merges_(ignore_merges) {
    if (vocab_.add_bos) begins_with_ = vocab_.bos;
    if (vocab_.add_eos) ends_with_ = vocab_.eos;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::string spelling;
      append_utf8(alphabet.character[byte], spelling);
      byte_symbols_[byte] = intern(spelling);
    }
  }

  // merges: "left right", the first space after the first character parts them.
  Result<void> add_merges(const GgufFile& file, const std::vector<std::string_view>& merges) {
    constexpr std::size_t max_merges = std::size_t{1} << 28;  // symbols are counted in 31 bits
    if (merges.size() > max_merges) {
      return error(RUNNEL_BAD_FILE, "%s: tokenizer.ggml.merges has %zu elements, expected %zu at most",
                   file.name().c_str(), merges.size(), max_merges);
    }
    merges_ = MergeTable(merges.size());
    std::string joined;
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const std::string_view merge = merges[i];
      const std::size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size()) {
        return error(RUNNEL_BAD_FILE,
                     "%s: tokenizer.ggml.merges[%zu] is \"%s\", expected two tokens and a space between",
                     file.name().c_str(), i, printable(merge, 64).c_str());
      }
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      joined.assign(left).append(right);
      const SymbolId result = intern(joined);
      merges_.add(intern(left), intern(right), result);
    }
    return {};
  }

 private:
  // A token's id, or one past them for a string that is no token but takes part in merges.
  SymbolId intern(std::string_view text) {
    if (const Token token = vocab_.index.find(text); token >= 0) return token;
    const auto next = static_cast<SymbolId>(vocab_.size() + other_symbols_.size());
    const auto [entry, is_new] = other_ids_.try_emplace(std::string(text), next);
    if (is_new) other_symbols_.push_back(entry->first);
    return entry->second;
  }

  Result<void> encode_text(std::string_view raw, bool, std::vector<Token>& out) const override {
    std::string storage;
    std::string_view text = valid_utf8(raw, storage);
    std::vector<std::uint32_t> lengths;
    RUNNEL_TRY(pre_.split(text, lengths));
    PairMerger merger(merges_);
    std::string spelled;
    for (const std::uint32_t length : lengths) {
      const std::string_view piece = text.substr(0, length);
      text.remove_prefix(length);
      if (const Token whole = ignore_merges_ ? find_spelled(piece, spelled) : -1; whole >= 0) {
        out.push_back(whole);
        continue;
      }
      merger.clear();
      for (const char c : piece) merger.append(byte_symbols_[static_cast<unsigned char>(c)]);
      merger.run();
      merger.for_each([&](SymbolId symbol) { put(symbol, out); });
    }
    return {};
  }

  // The token that spells these bytes; -1 when there is none.
  Token find_spelled(std::string_view bytes, std::string& spelled) const {
    if (bytes.size() > vocab_.max_token_bytes) return -1;
    spelled.clear();
    for (const char c : bytes) append_utf8(alphabet.character[static_cast<unsigned char>(c)], spelled);
    return vocab_.index.find(spelled);
  }

  // What is no token falls back to those of its ASCII characters; what has none is left out, as in llama.cpp.
  void put(SymbolId symbol, std::vector<Token>& out) const {
    if (vocab_.contains(symbol)) {
      out.push_back(symbol);
      return;
    }
    const std::string_view text = other_symbols_[static_cast<std::size_t>(symbol) - vocab_.size()];
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Token token = vocab_.index.find(text.substr(i, 1));
      if (token >= 0) out.push_back(token);
    }
  }

  void decode_text(std::string_view text, std::string& out) const override {
    while (!text.empty()) {
      const Utf8Char c = decode_utf8(text);
      const int byte = c.valid && c.code < alphabet.byte_of.size() ? alphabet.byte_of[c.code] : -1;
      if (byte >= 0) {
        out += static_cast<char>(static_cast<unsigned char>(byte));
      } else {
        out += text.substr(0, c.bytes);
      }
      text.remove_prefix(c.bytes);
    }
  }

  PreTokenizer pre_;
  bool ignore_merges_;
  // Parts and results of merges that are no tokens, which files rarely have.
  std::unordered_map<std::string, SymbolId, KeyedHash> other_ids_;
  std::vector<std::string_view> other_symbols_;  // by id - n_vocab; views of the keys
  std::array<SymbolId, 256> byte_symbols_;       // of single bytes
  MergeTable merges_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_bpe(const GgufFile& file) {
  RUNNEL_ASSIGN(const std::string_view name, file.get_string("tokenizer.ggml.pre", "default"));
  const PreTokenizerRow* row = find_pre_tokenizer(name.empty() ? "default" : name);
  if (row == nullptr) {
    return error(RUNNEL_UNSUPPORTED, "%s: tokenizer.ggml.pre is \"%s\", expected one of: %s",
                 file.name().c_str(), printable(name, 64).c_str(), known_pre_tokenizers().c_str());
  }
  VocabDefaults defaults;
  defaults.add_bos = row->add_bos;
  RUNNEL_ASSIGN(Vocab vocab, Vocab::load(file, defaults));
  RUNNEL_ASSIGN(const std::vector<std::string_view> merges, file.get_strings("tokenizer.ggml.merges"));
  RUNNEL_ASSIGN(PreTokenizer pre, PreTokenizer::compile(row->patterns));
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab), std::move(pre), row->ignore_merges);
  RUNNEL_TRY(tokenizer->add_merges(file, merges));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace runnel
