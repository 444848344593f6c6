// SentencePiece BPE (Kudo and Richardson 2018, arXiv:1808.06226) by scores: the text's characters are merged
// pair by pair, always to the token with the highest score, the leftmost of equal ones first. A character
// that is no token becomes the tokens of its bytes, or the unknown token when the vocabulary has none for
// them; where it has none for any byte, several in a row become one unknown token.
#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <queue>

#include "lib/token/tokenizer.h"

namespace runnel {
namespace {

constexpr VocabDefaults vocab_defaults = {
    .bos = 1, .eos = 2, .unk = 0, .sep = -1, .add_bos = true, .add_eos = false};

// A linked list of stretches of the text; merging one into its left neighbour empties it.
struct Symbol {
  std::uint32_t begin;
  std::uint32_t bytes;  // 0: merged away
  std::int32_t prev;    // -1 at the ends
  std::int32_t next;
};

// Two neighbours whose joined text is a token.
struct Merge {
  std::uint32_t rank;  // smaller for a higher score
  std::int32_t left;
  std::uint32_t bytes;  // of both; a symbol that has grown since makes the merge void
};

struct Later {
  bool operator()(const Merge& a, const Merge& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

// Integers in the opposite order of the floats: the higher score has the smaller rank.
std::uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 becomes +0
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
  return ~ascending;
}

// The token with this text, unless it is one that no text is made of: its spelling is text like any other.
Token find_piece(const Vocab& vocab, std::string_view text) {
  const Token token = vocab.index.find(text);
  return token >= 0 && vocab.has(token, token_control | token_unknown | token_byte) ? -1 : token;
}

// Merges the characters of one stretch of text; can be used for one after another.
class Merger {
 public:
  explicit Merger(const Vocab& vocab) : vocab_(vocab) {}

  void run(std::string_view text) {
    set_characters(text);
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) propose(static_cast<std::int32_t>(i));
    while (!queue_.empty()) {
      const Merge merge = queue_.top();
      queue_.pop();
      Symbol& left = at(merge.left);
      if (left.bytes == 0 || left.next < 0) continue;
      Symbol& right = at(left.next);
      if (left.bytes + right.bytes != merge.bytes) continue;
      left.bytes += right.bytes;
      right.bytes = 0;
      left.next = right.next;
      if (left.next >= 0) at(left.next).prev = merge.left;
      if (left.prev >= 0) propose(left.prev);
      propose(merge.left);
    }
  }

  // Calls f(text) for each symbol that is left, in order.
  template <class F>
  void for_each(F&& f) const {
    for (std::int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next) {
      const Symbol& symbol = symbols_[static_cast<std::size_t>(i)];
      f(text_.substr(symbol.begin, symbol.bytes));
    }
  }

 private:
  Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }

  void set_characters(std::string_view text) {
    text_ = text;
    symbols_.clear();
    for (std::size_t i = 0; i < text.size();) {
      const std::uint32_t n = decode_utf8(text.substr(i)).bytes;
      const auto here = static_cast<std::int32_t>(symbols_.size());
      symbols_.push_back({static_cast<std::uint32_t>(i), n, here - 1, here + 1});
      i += n;
    }
    if (!symbols_.empty()) symbols_.back().next = -1;
  }

  void propose(std::int32_t left) {
    const Symbol& a = at(left);
    if (a.next < 0) return;
    const std::uint32_t bytes = a.bytes + at(a.next).bytes;
    if (bytes > vocab_.max_token_bytes) return;
    const Token token = find_piece(vocab_, text_.substr(a.begin, bytes));
    if (token >= 0) queue_.push({rank_of(vocab_.scores[static_cast<std::size_t>(token)]), left, bytes});
  }

  const Vocab& vocab_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Merge, std::vector<Merge>, Later> queue_;
};

class SpmTokenizer final : public Tokenizer {
 public:
  SpmTokenizer(Vocab vocab, bool add_space_prefix) : Tokenizer(std::move(vocab)) {
    adds_space_prefix_ = add_space_prefix;
    if (vocab_.add_bos) begins_with_ = vocab_.bos;
    if (vocab_.add_eos) ends_with_ = vocab_.eos;
    find_joined_spaces();
    byte_tokens_.fill(-1);
    for (std::size_t i = vocab_.size(); i-- > 0;) {
      const int byte = byte_of_token(vocab_.texts[i]);
      if (byte >= 0) byte_tokens_[static_cast<std::size_t>(byte)] = static_cast<Token>(i);
    }
    has_bytes_ = std::any_of(byte_tokens_.begin(), byte_tokens_.end(), [](Token t) { return t >= 0; });
  }

 private:
  Result<void> encode_text(std::string_view text, bool space_prefix, std::vector<Token>& out) const override {
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2 + visible_space.size());
    if (adds_space_prefix_ && space_prefix) escaped += visible_space;
    for (const char c : text) {
      if (c == ' ') {
        escaped += visible_space;
      } else {
        escaped += c;
      }
    }
    const std::size_t begin = out.size();
    Merger merger(vocab_);
    for (std::string_view rest = escaped; !rest.empty();) {
      const std::size_t n = word_bytes(rest);
      merger.run(rest.substr(0, n));
      merger.for_each([&](std::string_view symbol) { put(symbol, begin, out); });
      rest.remove_prefix(n);
    }
    return {};
  }

  // Where no token has a space after a certain byte, nothing is ever merged across the two: the text falls
  // into words that can be merged one by one, which is much faster than all of it in one queue and gives the
  // same.
  void find_joined_spaces() {
    for (const std::string_view text : vocab_.texts) {
      for (std::size_t at = text.find(visible_space, 1); at < text.size();
           at = text.find(visible_space, at + 1)) {
        joins_space_.set(static_cast<unsigned char>(text[at - 1]));
      }
    }
  }

  std::size_t word_bytes(std::string_view text) const {
    std::size_t at = text.find(visible_space, 1);
    while (at < text.size() && joins_space_[static_cast<unsigned char>(text[at - 1])]) {
      at = text.find(visible_space, at + 1);
    }
    return std::min(at, text.size());
  }

  // The text's first token is at `begin`.
  void put(std::string_view symbol, std::size_t begin, std::vector<Token>& out) const {
    if (const Token token = find_piece(vocab_, symbol); token >= 0) {
      out.push_back(token);
      return;
    }
    const std::size_t n_before = out.size();
    for (const char c : symbol) {
      const Token token = byte_tokens_[static_cast<unsigned char>(c)];
      if (token >= 0) {
        out.push_back(token);
        continue;
      }
      out.resize(n_before);
      const bool goes_on = !has_bytes_ && out.size() > begin && out.back() == vocab_.unk;
      if (vocab_.unk >= 0 && !goes_on) out.push_back(vocab_.unk);
      return;
    }
  }

  void decode_text(std::string_view text, std::string& out) const override { append_with_spaces(text, out); }

  std::array<Token, 256> byte_tokens_;  // -1 where there is none
  bool has_bytes_;                      // whether there is any
  std::bitset<256> joins_space_;        // bytes that some token has right before a space
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_spm(const GgufFile& file) {
  RUNNEL_ASSIGN(Vocab vocab, Vocab::load(file, vocab_defaults));
  RUNNEL_ASSIGN(const bool add_space_prefix, file.get_bool("tokenizer.ggml.add_space_prefix", true));
  return std::unique_ptr<Tokenizer>(std::make_unique<SpmTokenizer>(std::move(vocab), add_space_prefix));
}

}  // namespace runnel
