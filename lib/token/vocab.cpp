#include "lib/token/vocab.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "lib/io/little_endian.h"

namespace runnel {
namespace {

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

// Types of tokenizer.ggml.token_type (gguf.md). Unused and undefined tokens have no attribute: they are found
// in texts and stand for nothing.
std::uint8_t attributes_of_type(std::int64_t type) {
  switch (type) {
    case 1:
      return token_normal;
    case 2:
      return token_unknown;
    case 3:
      return token_control;
    case 4:
      return token_user_defined;
    case 6:
      return token_byte;
    default:
      return 0;
  }
}

// -1 as u32, which llama.cpp's tools (convert-llama2c-to-ggml) write for a token that there is not.
bool is_no_id(const GgufValue& value) {
  return !value.is_array && value.type == GgufType::u32 && load<std::uint32_t>(value.data) == UINT32_MAX;
}

// Spellings by which files leave end-of-turn tokens to be recognised, most telling first.
constexpr std::string_view end_of_turn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view end_of_message[] = {"<|eom_id|>"};
// Spellings that end generation whatever else the file says.
constexpr std::string_view ending_tokens[] = {"<|eot_id|>",
                                              "<|im_end|>",
                                              "<|end|>",
                                              "<|return|>",
                                              "<|call|>",
                                              "<|flush|>",
                                              "<|calls|>",
                                              "<end_of_turn>",
                                              "<|endoftext|>",
                                              "<|eom_id|>",
                                              "<EOT>",
                                              "_<EOT>",
                                              "[EOT]",
                                              "[EOS]",
                                              "<|end_of_text|>",
                                              "<end_of_utterance>",
                                              "<eos>",
                                              "<turn|>",
                                              "<|tool_response>",
                                              "<｜end▁of▁sentence｜>",
                                              "[e~["};

// Parts of fill-in-the-middle prompts: special in texts, and where the third column says so the end of an
// answer.
struct FimToken {
  std::string_view id_key;
  bool ends;
  std::array<std::string_view, 8> spellings;
};
constexpr FimToken fim_tokens[] = {
    {"fim_pre_token_id",
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {"fim_suf_token_id",
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {"fim_mid_token_id",
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"}},
    {"fim_pad_token_id", true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"fim_rep_token_id", true, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"fim_sep_token_id", true, {"<|file_sep|>"}},
};

class VocabLoader {
 public:
  VocabLoader(const GgufFile& file, Vocab& vocab) : file_(file), vocab_(vocab) {}

  Result<void> load_tables() {
    RUNNEL_ASSIGN(vocab_.texts, file_.get_strings(key("tokens")));
    const std::size_t n = vocab_.texts.size();
    if (n == 0 || n > std::size_t{std::numeric_limits<Token>::max() / 2}) {
      return error(RUNNEL_BAD_FILE, "%s: tokenizer.ggml.tokens has %zu elements, expected 1 to 2^30",
                   file_.name().c_str(), n);
    }
    vocab_.scores.assign(n, 0.0F);
    RUNNEL_ASSIGN(const bool has_scores, has_table("scores"));
    if (has_scores) {
      RUNNEL_ASSIGN(vocab_.scores, file_.get_floats(key("scores")));
    }
    vocab_.attributes_of.assign(n, token_normal);
    RUNNEL_ASSIGN(const bool has_types, has_table("token_type"));
    if (has_types) {
      RUNNEL_ASSIGN(const std::vector<std::int64_t> types, file_.get_ints(key("token_type")));
      for (std::size_t i = 0; i < n; ++i) vocab_.attributes_of[i] = attributes_of_type(types[i]);
    }
    vocab_.index = TokenIndex(vocab_.texts);
    for (const std::string_view text : vocab_.texts) {
      vocab_.max_token_bytes = std::max(vocab_.max_token_bytes, text.size());
    }
    return {};
  }

  Result<void> load_special_ids(const VocabDefaults& defaults) {
    RUNNEL_ASSIGN(vocab_.bos, special_id("cls_token_id", defaults.bos));  // the older name of BERT's files
    RUNNEL_ASSIGN(vocab_.bos, special_id("bos_token_id", vocab_.bos));
    RUNNEL_ASSIGN(vocab_.eos, special_id("eos_token_id", defaults.eos));
    RUNNEL_ASSIGN(vocab_.unk, special_id("unknown_token_id", defaults.unk));
    RUNNEL_ASSIGN(vocab_.sep, special_id("seperator_token_id", defaults.sep));  // spelled so in the format
    RUNNEL_ASSIGN(vocab_.eot, special_id("eot_token_id", -1));
    RUNNEL_ASSIGN(vocab_.add_bos, file_.get_bool(key("add_bos_token"), defaults.add_bos));
    RUNNEL_ASSIGN(vocab_.add_eos, file_.get_bool(key("add_eos_token"), defaults.add_eos));
    vocab_.add_bos = vocab_.add_bos && vocab_.bos >= 0;
    vocab_.add_eos = vocab_.add_eos && vocab_.eos >= 0;
    return {};
  }

  // By the rules of llama.cpp: the ids the file names, and well-known spellings, which become control tokens.
  Result<void> find_ends() {
    if (vocab_.eot < 0) vocab_.eot = find_control(end_of_turn);
    RUNNEL_ASSIGN(Token eom, special_id("eom_token_id", -1));
    if (eom < 0) eom = find_control(end_of_message);
    for (const FimToken& fim : fim_tokens) {
      RUNNEL_ASSIGN(Token id, special_id(fim.id_key, -1));
      if (id < 0) id = find_control(fim.spellings);
      if (fim.ends) add_end(id);
    }
    for (const std::string_view spelling : ending_tokens) add_end(find_control({&spelling, 1}));
    // In Gemma's vocabularies </s> is HTML.
    if (const Token id = vocab_.index.find("</s>"); id >= 0 && vocab_.has(id, token_control)) add_end(id);
    add_end(vocab_.eos);
    add_end(vocab_.eot);
    add_end(eom);

    // In the harmony and solar-open forms <|end|> only closes one message of an answer.
    const bool calls = ends_with_any({"<|call|>", "<|calls|>"});
    if (calls && ends_with_any({"<|return|>", "<|flush|>"})) remove_end("<|end|>");
    std::sort(vocab_.end_ids.begin(), vocab_.end_ids.end());
    return {};
  }

  // Which specials swallow white space is not in the files; llama.cpp knows these by the model's name. Names
  // are written in many ways ("Phi 3.5 Mini Instruct"): Phi 3 is also what has its architecture and
  // SentencePiece. Phi 4 has the same architecture and byte-level BPE.
  Result<void> find_stripping() {
    RUNNEL_ASSIGN(const std::string_view name, file_.get_string("general.name", ""));
    RUNNEL_ASSIGN(const std::string_view pre, file_.get_string(key("pre"), ""));
    std::string lower(name);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto named = [&lower](std::string_view part) { return lower.find(part) != std::string::npos; };
    RUNNEL_ASSIGN(const std::string_view architecture, file_.get_string("general.architecture", ""));
    RUNNEL_ASSIGN(const std::string_view kind, file_.get_string(key("model"), ""));
    const bool is_phi3 = named("phi-3") || named("phi3") || (architecture == "phi3" && kind == "llama");
    if (pre == "jina-v2-de" || pre == "jina-v2-es" || pre == "jina-v2-code") {
      set(vocab_.index.find("<mask>"), token_strips_left);
    } else if (is_phi3) {
      for (const Token id : vocab_.partition_ids) set(id, token_strips_right);
      set(vocab_.index.find("</s>"), token_strips_right);
      for (const std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) {
        if (const Token id = vocab_.index.find(text); id >= 0)
          attributes(id) &= std::uint8_t(~token_strips_right);
      }
    } else if (named("modern-bert")) {
      set(vocab_.index.find("[MASK]"), token_strips_left);
    }
    return {};
  }

  Result<void> find_partition_ids() {
    // What finds them in texts takes memory many times of that.
    constexpr std::size_t max_bytes = std::size_t{1} << 24;
    std::size_t n_bytes = 0;
    for (std::size_t i = 0; i < vocab_.size(); ++i) {
      const auto id = static_cast<Token>(i);
      if (vocab_.has(id, token_control | token_user_defined | token_unknown) && !vocab_.texts[i].empty()) {
        vocab_.partition_ids.push_back(id);
        n_bytes += vocab_.texts[i].size();
      }
    }
    if (n_bytes > max_bytes)
      return error(RUNNEL_BAD_FILE,
                   "%s: the special tokens of tokenizer.ggml.tokens have %zu bytes, expected %zu at most",
                   file_.name().c_str(), n_bytes, max_bytes);
    std::stable_sort(vocab_.partition_ids.begin(), vocab_.partition_ids.end(),
                     [this](Token a, Token b) { return vocab_.text(a).size() > vocab_.text(b).size(); });
    return {};
  }

 private:
  std::uint8_t& attributes(Token id) { return vocab_.attributes_of[static_cast<std::size_t>(id)]; }

  void set(Token id, TokenAttribute attribute) {
    if (id >= 0) attributes(id) = static_cast<std::uint8_t>(attributes(id) | attribute);
  }

  // Whether the file has a table of the tokens. Its length is checked before anybody converts it, by which a
  // byte of the file can become eight. What is no array is refused by who reads it.
  Result<bool> has_table(const char* name) const {
    const GgufValue* table = file_.find(key(name));
    if (table == nullptr || !table->is_array || table->count == vocab_.size()) return table != nullptr;
    return error(RUNNEL_BAD_FILE,
                 "%s: tokenizer.ggml.%s has %llu elements, expected one for each of the %zu tokens",
                 file_.name().c_str(), name, static_cast<unsigned long long>(table->count), vocab_.size());
  }

  // `absent` for an absent key, or none when the vocabulary is too small for it.
  Result<Token> special_id(std::string_view name, Token absent) const {
    const auto last = static_cast<std::int64_t>(vocab_.size()) - 1;
    const GgufValue* value = file_.find(key(name));
    if (value == nullptr || is_no_id(*value)) return absent <= last ? absent : Token{-1};
    RUNNEL_ASSIGN(const std::int64_t id, file_.get_int(key(name), 0, last));
    return static_cast<Token>(id);
  }

  // The first of the spellings that the vocabulary has, made a control token; -1 when it has none.
  Token find_control(std::span<const std::string_view> spellings) {
    for (const std::string_view spelling : spellings) {
      const Token id = vocab_.index.find(spelling);
      if (id < 0) continue;
      set(id, token_control);
      return id;
    }
    return -1;
  }

  void add_end(Token id) {
    if (id >= 0 && std::find(vocab_.end_ids.begin(), vocab_.end_ids.end(), id) == vocab_.end_ids.end()) {
      vocab_.end_ids.push_back(id);
    }
  }

  void remove_end(std::string_view text) { std::erase(vocab_.end_ids, vocab_.index.find(text)); }

  bool ends_with_any(std::initializer_list<std::string_view> texts) const {
    return std::any_of(texts.begin(), texts.end(), [this](std::string_view text) {
      const Token id = vocab_.index.find(text);
      return std::find(vocab_.end_ids.begin(), vocab_.end_ids.end(), id) != vocab_.end_ids.end();
    });
  }

  const GgufFile& file_;
  Vocab& vocab_;
};

}  // namespace

Result<Vocab> Vocab::load(const GgufFile& file, const VocabDefaults& defaults) {
  Vocab vocab;
  VocabLoader loader(file, vocab);
  RUNNEL_TRY(loader.load_tables());
  RUNNEL_TRY(loader.load_special_ids(defaults));
  RUNNEL_TRY(loader.find_ends());
  RUNNEL_TRY(loader.find_partition_ids());
  RUNNEL_TRY(loader.find_stripping());
  return vocab;
}

int byte_of_token(std::string_view text) noexcept {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace runnel
