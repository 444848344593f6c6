// The patterns behind tokenizer.ggml.pre, as PCRE2 takes them. They are those of the models' own
// tokenizer.json files in the form that llama.cpp (src/llama-vocab.cpp, src/unicode.cpp) gives them, and
// split exactly as it does, which differs from the original here and there. Not so where words end at
// capitals (GPT-4o, tekken, Kimi K2, Youtu): there llama.cpp leaves out case or combining marks, without
// which texts in Hindi or Thai become up to 1.7 times as many tokens as the models learned; these patterns
// are the models' own. Nor where llama.cpp is at odds with a model's file: among the symbols \p{S} of
// DeepSeek V3 it has no ~, and of glm4 it merges words that are tokens as they stand. \s means White_Space.
// The alternatives 's 't ... in both cases are spelled out because caseless matching would take U+017F for an
// s.
#include "lib/token/pre_tokenizer.h"

namespace runnel {
namespace {

using Patterns = const char* const[];

// Parts that several patterns share. Only literals can be joined, hence macros.
#define RUNNEL_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define RUNNEL_CONTRACTION R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
#define RUNNEL_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define RUNNEL_SIGNS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define RUNNEL_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
// Words that change from capitals to small letters at most once; letters without case and marks count as
// both.
#define RUNNEL_CASED_1 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define RUNNEL_CASED_2 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
#define RUNNEL_CASED_WORD \
  RUNNEL_CASED_1 "(?:" RUNNEL_CONTRACTION ")?|" RUNNEL_CASED_2 "(?:" RUNNEL_CONTRACTION ")?"
// CJK ideographs with Hiragana and Katakana.
#define RUNNEL_CJK_KANA R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"
// From U+0800 to U+9FA5 less the white space in between, and the Hangul syllables.
#define RUNNEL_FROM_SAMARITAN                                                                                  \
  (R"([\x{800}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff})" \
   R"(\x{3001}-\x{9fa5}\x{ac00}-\x{d7ff}]+)")
// The script Han (Scripts.txt); PCRE2's \p{Han} means the script's extensions in some versions.
#define RUNNEL_HAN                                                                                   \
  R"(\x{2e80}-\x{2e99}\x{2e9b}-\x{2ef3}\x{2f00}-\x{2fd5}\x{3005}\x{3007}\x{3021}-\x{3029})"          \
  R"(\x{3038}-\x{303b}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{fa6d}\x{fa70}-\x{fad9})"         \
  R"(\x{16fe2}\x{16fe3}\x{16ff0}\x{16ff1}\x{20000}-\x{2a6df}\x{2a700}-\x{2b739}\x{2b740}-\x{2b81d})" \
  R"(\x{2b820}-\x{2cea1}\x{2ceb0}-\x{2ebe0}\x{2f800}-\x{2fa1d}\x{30000}-\x{3134a}\x{31350}-\x{323af})"
// What RUNNEL_CASED_1 calls capitals and small letters, each less Han: classes of all that they are not.
#define RUNNEL_CAPITALS_NOT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C})" RUNNEL_HAN "]"
#define RUNNEL_SMALL_NOT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C})" RUNNEL_HAN "]"

constexpr Patterns default_pattern = {R"([\p{P}\$\+<=>\^~\|]+)", RUNNEL_GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]",
                                      nullptr};
constexpr Patterns gpt2 = {RUNNEL_GPT2, nullptr};
constexpr Patterns starcoder = {R"(\p{N})", RUNNEL_GPT2, nullptr};
constexpr Patterns falcon = {R"([\p{P}\$\+<=>\^~\|`]+)", RUNNEL_GPT2, "[0-9][0-9][0-9]", nullptr};
constexpr Patterns llama3 = {
    RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}{1,3}|)" RUNNEL_SIGNS "|" RUNNEL_SPACES, nullptr};
constexpr Patterns qwen2 = {RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}|)" RUNNEL_SIGNS "|" RUNNEL_SPACES,
                            nullptr};
constexpr Patterns qwen35 = {
    RUNNEL_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" RUNNEL_SPACES,
    nullptr};
// The lookbehind keeps a long run of spaces from being searched for a line end again after every 512 of them.
constexpr Patterns jais2 = {
    RUNNEL_CONTRACTION
    "|" RUNNEL_WORD R"(|\p{N}{1,3}|)" RUNNEL_SIGNS
    R"(|(?<![^\S\r\n])\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S))"
    R"(|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)",
    nullptr};
// The lookbehind keeps a long run of spaces with more behind it from being searched from each of them.
constexpr Patterns deepseek_llm = {
    R"([\r\n])",
    // The letters with case of an older Unicode.
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5})"
    R"(\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd})"
    R"(\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15})"
    R"(\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d})"
    R"(\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb})"
    R"(\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d})"
    R"(\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e})"
    R"(\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06})"
    R"(\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb})"
    R"(\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)",
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3001}\x{3002}]+)", R"((?<!\s)\s+$)",
    RUNNEL_FROM_SAMARITAN, R"(\p{N}+)", nullptr};
constexpr Patterns deepseek_coder = {R"([\r\n])",           R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                     RUNNEL_FROM_SAMARITAN, R"(\p{N})",     nullptr};
constexpr Patterns deepseek3 = {
    R"(\p{N}{1,3})", RUNNEL_CJK_KANA,
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" RUNNEL_SPACES,
    nullptr};
constexpr Patterns spark = {
    R"(\p{N}{1,3})", RUNNEL_CJK_KANA,
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    R"(\p{N})", nullptr};
constexpr Patterns youtu = {
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|)"
    R"([\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f})"
    R"(\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|)" RUNNEL_CJK_KANA,
    RUNNEL_CASED_WORD R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" RUNNEL_SPACES, nullptr};
constexpr Patterns bloom = {R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)",
                            nullptr};
constexpr Patterns viking = {R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)",
                             R"(\p{N})", nullptr};
constexpr Patterns tekken = {
    RUNNEL_CASED_1 "|" RUNNEL_CASED_2 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" RUNNEL_SPACES, nullptr};
constexpr Patterns gpt4o = {RUNNEL_CASED_WORD R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" RUNNEL_SPACES,
                            nullptr};
constexpr Patterns chameleon = {"<sentinel:[0-9]+>",
                                "IMGIMG[A-I]{1,4}Z",
                                R"([\t\n]|    |  )",
                                R"(\p{N})",
                                R"([\p{P}!-/:-@\[-`{-~])",
                                RUNNEL_GPT2,
                                nullptr};
constexpr Patterns bailing = {
    RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}|)" RUNNEL_SIGNS R"(|\s*[\r\n]|\s+(?!\S)|\s+)", nullptr};
constexpr Patterns seed_coder = {
    RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" RUNNEL_SPACES, nullptr};
constexpr Patterns exaone_moe = {
    RUNNEL_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)",
    nullptr};
constexpr Patterns minicpm5 = {
    R"(\p{N}{1,3})", RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}+|)" RUNNEL_SIGNS "|" RUNNEL_SPACES,
    nullptr};
constexpr Patterns laguna = {
    R"([^\n]+|\n+)", RUNNEL_CONTRACTION "|" RUNNEL_WORD R"(|\p{N}|)" RUNNEL_SIGNS "|" RUNNEL_SPACES, nullptr};
constexpr Patterns ufakzeka = {RUNNEL_WORD R"(|\p{N}|)" RUNNEL_SIGNS "|" RUNNEL_SPACES, nullptr};
constexpr Patterns kimi_k2 = {"[" RUNNEL_HAN R"(]+|[^\r\n\p{L}\p{N}]?)" RUNNEL_CAPITALS_NOT_HAN
                              "*" RUNNEL_SMALL_NOT_HAN "+(?:" RUNNEL_CONTRACTION
                              R"()?|[^\r\n\p{L}\p{N}]?)" RUNNEL_CAPITALS_NOT_HAN "+" RUNNEL_SMALL_NOT_HAN
                              "*(?:" RUNNEL_CONTRACTION R"()?|\p{N}{1,3}|)" RUNNEL_SIGNS "|" RUNNEL_SPACES,
                              nullptr};

// By name. Flags: ignore_merges, add_bos.
constexpr PreTokenizerRow rows[] = {
    {"default", default_pattern},
    {"gpt-2", gpt2},
    {"phi-2", gpt2},
    {"mpt", gpt2},
    {"olmo", gpt2},
    {"jais", gpt2},
    {"trillion", gpt2},
    {"granite-docling", gpt2},
    {"exaone4", gpt2},
    {"gigachat", gpt2},
    {"a.x-4.0", gpt2},
    {"mellum", gpt2},
    {"modern-bert", gpt2},
    {"roberta-bpe", gpt2},
    {"jina-es", gpt2},
    {"jina-de", gpt2},
    {"jina-v1-en", gpt2},
    {"jina-v2-es", gpt2},
    {"jina-v2-de", gpt2},
    {"jina-v2-code", gpt2},
    {"starcoder", starcoder},
    {"refact", starcoder},
    {"command-r", starcoder},
    {"smollm", starcoder},
    {"codeshell", starcoder},
    {"exaone", starcoder},
    {"minerva-7b", starcoder},
    {"mellum2", starcoder},
    {"falcon", falcon},
    {"llama-bpe", llama3, true, true},
    {"llama3", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"falcon3", llama3, true, true},
    {"falcon-h1", llama3, true, true},
    {"pixtral", llama3, true, true},
    {"midm-2.0", llama3, true, true},
    {"lfm2", llama3, true, true},
    {"jina-v5-nano", llama3, true, true},
    {"dbrx", llama3},
    {"smaug-bpe", llama3},
    {"chatglm-bpe", llama3},
    {"glm4", llama3, true},
    {"glm5", llama3, true},
    {"jais-2", jais2},
    {"qwen2", qwen2},
    {"deepseek-r1-qwen", qwen2},
    {"kormo", qwen2},
    {"f2llmv2", qwen2},
    {"megrez", qwen2},
    {"stablelm2", qwen2},
    {"hunyuan", qwen2},
    {"solar-open", qwen2},
    {"grok-2", qwen2},
    {"qwen35", qwen35},
    {"deepseek-llm", deepseek_llm},
    {"deepseek-coder", deepseek_coder},
    {"deepseek-v3", deepseek3},
    {"hunyuan-dense", deepseek3},
    {"joyai-llm", deepseek3},
    {"hy_v4", deepseek3},
    {"spark2_5", spark},
    {"youtu", youtu, true},
    {"bloom", bloom},
    {"poro-chat", bloom},
    {"gpt3-finnish", bloom},
    {"viking", viking},
    {"tekken", tekken, true, true},
    {"gpt-4o", gpt4o},
    {"llama4", gpt4o},
    {"kanana2", gpt4o},
    {"talkie", gpt4o},
    {"minimax-m2", gpt4o},
    {"chameleon", chameleon, false, true},
    {"bailingmoe", bailing},
    {"bailingmoe2", bailing},
    {"llada-moe", bailing},
    {"seed-coder", seed_coder},
    {"exaone-moe", exaone_moe},
    {"minicpm5", minicpm5, true},
    {"laguna", laguna},
    {"ufakzeka", ufakzeka},
    {"kimi-k2", kimi_k2},
};

}  // namespace

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRow& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const PreTokenizerRow& row : rows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace runnel
