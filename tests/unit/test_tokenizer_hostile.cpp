// Damaged vocabularies, and texts that would be slow or wrong in careless hands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <set>

#include "lib/token/merge_table.h"
#include "lib/token/special_split.h"
#include "lib/token/token_index.h"
#include "tests/support/test_names.h"
#include "tokenizer_fixture.h"

namespace runnel::test {
namespace {

const std::string space(visible_space);

void expect_error(const GgufBuilder& builder, runnel_status status, const Strings& mentioned) {
  const LoadedTokenizer t(builder);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().status, status) << t.error().message;
  for (const std::string& word : mentioned) {
    EXPECT_NE(t.error().message.find(word), std::string::npos)
        << "\"" << word << "\" is not in: " << t.error().message;
  }
}

TEST(HostileVocabulary, UnknownKindsAreNamed) {
  expect_error(vocabulary("rwkv", {"a"}), RUNNEL_UNSUPPORTED,
               {"test.gguf", "tokenizer.ggml.model", "rwkv", "gpt2"});
  expect_error(vocabulary("gpt2", {"a"})
                   .add("tokenizer.ggml.pre", "no-such-thing")
                   .add_array("tokenizer.ggml.merges", Strings{}),
               RUNNEL_UNSUPPORTED,
               {"test.gguf", "tokenizer.ggml.pre", "no-such-thing", "gpt-2", "llama-bpe"});
  expect_error(GgufBuilder().add("general.name", "x"), RUNNEL_BAD_FILE, {"tokenizer.ggml.model"});
}

// What a terminal would obey does not reach it.
TEST(HostileVocabulary, TextsAreShownPrintable) {
  const std::string hostile = "\x1b[2J\n\xff", shown = "\"\\x1b[2J\\n\\xff\"";
  expect_error(vocabulary(hostile, {"a"}), RUNNEL_UNSUPPORTED, {"tokenizer.ggml.model is " + shown});
  expect_error(vocabulary("gpt2", {"a"})
                   .add("tokenizer.ggml.pre", hostile)
                   .add_array("tokenizer.ggml.merges", Strings{}),
               RUNNEL_UNSUPPORTED, {"tokenizer.ggml.pre is " + shown});
  expect_error(vocabulary("gpt2", {"a"}).add_array("tokenizer.ggml.merges", Strings{hostile}),
               RUNNEL_BAD_FILE, {"tokenizer.ggml.merges[0] is " + shown});
}

TEST(HostileVocabulary, TablesThatContradictEachOther) {
  expect_error(GgufBuilder().add("tokenizer.ggml.model", "llama"), RUNNEL_BAD_FILE,
               {"tokenizer.ggml.tokens"});
  expect_error(vocabulary("llama", Strings{}), RUNNEL_BAD_FILE, {"tokenizer.ggml.tokens"});
  expect_error(vocabulary("llama", {"a", "b"}, {1}), RUNNEL_BAD_FILE,
               {"tokenizer.ggml.token_type", "1", "2"});
  expect_error(vocabulary("llama", {"a", "b"}).add_array("tokenizer.ggml.scores", std::vector<float>{1}),
               RUNNEL_BAD_FILE, {"tokenizer.ggml.scores", "1", "2"});
  expect_error(vocabulary("llama", {"a", "b"}, {1, 1, 1}), RUNNEL_BAD_FILE,
               {"tokenizer.ggml.token_type has 3 elements", "the 2 tokens"});
  expect_error(vocabulary("llama", {"a", "b"}).add_array("tokenizer.ggml.scores", std::vector<float>(3)),
               RUNNEL_BAD_FILE, {"tokenizer.ggml.scores has 3 elements", "the 2 tokens"});
  expect_error(vocabulary("llama", {"a"}).add("tokenizer.ggml.scores", "text"), RUNNEL_BAD_FILE,
               {"tokenizer.ggml.scores"});
  expect_error(vocabulary("gpt2", {"a"}), RUNNEL_BAD_FILE, {"tokenizer.ggml.merges"});
}

TEST(HostileVocabulary, IdsOutOfRange) {
  for (const char* name :
       {"bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id", "eom_token_id"}) {
    const std::string key = std::string("tokenizer.ggml.") + name;
    expect_error(vocabulary("llama", {"a", "b"}).add(key, std::uint32_t{2}), RUNNEL_BAD_FILE, {key, "2"});
    expect_error(vocabulary("llama", {"a", "b"}).add(key, std::int32_t{-1}), RUNNEL_BAD_FILE, {key, "-1"});
  }
  // Defaults beyond a small vocabulary are no ids at all.
  const LoadedTokenizer t(vocabulary("bert", {"a"}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->bos(), -1);
  EXPECT_EQ(t.encode("zz", RUNNEL_ADD_BOS), Tokens{});
}

TEST(HostileVocabulary, MalformedMergesAreNamedByIndex) {
  for (const std::string merge : {"", " ", "ab", "a ", " b"}) {
    expect_error(
        vocabulary("gpt2", {"a", "b", "ab"}).add_array("tokenizer.ggml.merges", Strings{"a b", merge}),
        RUNNEL_BAD_FILE, {"tokenizer.ggml.merges[1]"});
  }
}

TEST(HostileVocabulary, RepeatedMergesCountOnce) {
  const LoadedTokenizer t(vocabulary("gpt2", {"a", "b", "c", "ab", "bc"})
                              .add_array("tokenizer.ggml.merges", Strings{"b c", "a b", "b c"}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.spell("abc"), (Strings{"a", "bc"}));
}

TEST(HostileVocabulary, EmptyAndRepeatedTokens) {
  const LoadedTokenizer t(vocabulary("llama", {"<unk>", "", "a", "a", "", "aa", "x"},
                                     {unknown, control, normal, normal, user_defined, normal, user_defined})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("aaxa", RUNNEL_PARSE_SPECIAL), (Tokens{5, 6, 2}));  // the first of equals
  EXPECT_EQ(t.decode({1, 3, 4}), "a");
  EXPECT_EQ(t->find(""), -1);
}

TEST(HostileVocabulary, ByteTokensThatAreNone) {
  const Strings texts = {"<unk>", "<0x-1>", "<0x100>", "<0xG0>", "<0x>", "<0x4", "<0x41>"};
  const LoadedTokenizer t(vocabulary("llama", texts, {unknown, byte, byte, byte, byte, byte, byte})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("AB"), (Tokens{6, 0}));
  EXPECT_EQ(t.decode({1, 2, 3, 4, 5, 6}), "<0x-1><0x100><0xG0><0x><0x4A");
}

TEST(HostileVocabulary, TypesAndScoresOutOfAnyRange) {
  const LoadedTokenizer t(
      vocabulary("llama", {"<unk>", "a", "b", "ab"}, {-7, 1, 2147483647, 1})
          .add_array("tokenizer.ggml.scores", std::vector<float>{-1e38F, 1e38F, 0, -1e38F})
          .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("ab"), (Tokens{3}));
}

TEST(HostileVocabulary, NoMergesAndNoBytesLeaveNothing) {
  const LoadedTokenizer t(vocabulary("gpt2", {"a"}).add_array("tokenizer.ggml.merges", Strings{}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("xay\xFF"), (Tokens{0}));
}

// ---- entries made to fall on one slot

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;  // of multiplicative hashing

std::uint64_t inverse_of_golden() {
  std::uint64_t inverse = golden;  // Newton's iteration, which doubles the bits that are right
  for (int i = 0; i < 6; ++i) inverse *= 2 - golden * inverse;
  return inverse;
}

// What a file could do to a hash without a key: these multiply by `golden` and fold, which is undone step by
// step. All 16-byte strings here had the same 64 bits of hash, all pairs the same slot.
std::string colliding_string(std::uint64_t i) {
  const auto fold = [](std::uint64_t h) { return h ^ h >> 32; };  // its own inverse
  const std::uint64_t first = i + 0x0101010101010101;
  const std::uint64_t after_first = fold(((16 * golden) ^ first) * golden);
  const std::uint64_t after_second = fold(0x1234567800000005) * inverse_of_golden();
  const std::uint64_t second = (fold(after_second) * inverse_of_golden()) ^ after_first;
  std::string text(16, '\0');
  std::memcpy(text.data(), &first, 8);
  std::memcpy(text.data() + 8, &second, 8);
  return text;
}

std::uint64_t colliding_pair(std::uint64_t i, int slot_bits) {
  const std::uint64_t h = i << slot_bits | 5;
  const std::uint64_t mixed = (h ^ h >> 32) * inverse_of_golden();
  return mixed ^ mixed >> 29 ^ mixed >> 58;
}

constexpr std::size_t n_colliding = 80'000;
constexpr std::size_t few = 1000;  // a table of such size and random entries has runs of 30 or 40

TEST(CollidingEntries, OfTheIndexOfTokensAreSpread) {
  Strings texts;
  for (std::size_t i = 0; i < n_colliding; ++i) texts.push_back(colliding_string(i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const TokenIndex index(views);
  EXPECT_LT(index.longest_run(), few);
  for (std::size_t i = 0; i < n_colliding; ++i) ASSERT_EQ(index.find(texts[i]), static_cast<Token>(i));
  EXPECT_EQ(index.find(colliding_string(n_colliding)), -1);
}

TEST(CollidingEntries, OfTheTableOfMergesAreSpread) {
  MergeTable merges(n_colliding);
  const auto left = [](std::uint64_t pair) { return static_cast<SymbolId>(pair >> 32); };
  const auto right = [](std::uint64_t pair) { return static_cast<SymbolId>(pair & 0xFFFFFFFF); };
  for (std::uint64_t i = 0; i < n_colliding; ++i) {
    const std::uint64_t pair = colliding_pair(i, 18);
    merges.add(left(pair), right(pair), 0);
  }
  EXPECT_LT(merges.longest_run(), few);
  for (std::uint64_t i = 0; i < n_colliding; ++i) {
    const std::uint64_t pair = colliding_pair(i, 18);
    ASSERT_EQ(merges.rank(left(pair), right(pair)), static_cast<std::int64_t>(i));
  }
}

// The hash of a text of any length depends on each of its bytes.
TEST(KeyedHash, TellsTextsApartByEveryByte) {
  const KeyedHash hash;
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n < 40; ++n) {
    std::string text(n, '\0');
    EXPECT_TRUE(seen.insert(hash(text)).second) << n;
    for (char& c : text) {
      c = 'x';
      EXPECT_TRUE(seen.insert(hash(text)).second) << n;
      c = '\0';
    }
  }
  EXPECT_NE(hash("text"), KeyedHash()("text"));
}

// Every kind takes any bytes; the byte-level and byte-fallback kinds give valid text back whole.
TEST(HostileText, RandomBytes) {
  Strings spm_tokens = {"<unk>", "<s>", "</s>", space};
  std::vector<std::int32_t> spm_types = {unknown, control, control, normal};
  for (int i = 0; i < 256; ++i) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(i));
    spm_tokens.emplace_back(text);
    spm_types.push_back(byte);
  }
  const LoadedTokenizer spm(vocabulary("llama", spm_tokens, spm_types));
  const LoadedTokenizer bpe(vocabulary("gpt2", byte_alphabet())
                                .add("tokenizer.ggml.pre", "deepseek-llm")
                                .add_array("tokenizer.ggml.merges", Strings{}));
  const LoadedTokenizer wordpiece(vocabulary("bert", {"[UNK]", space + "a"}));
  ASSERT_TRUE(spm && bpe && wordpiece);
  std::minstd_rand random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (auto n = random() % 40; n > 0; --n) text += static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
    const auto flags = static_cast<unsigned>(random() % 4);
    EXPECT_EQ(spm.decode(spm.encode(text, flags)), text);
    std::string storage;
    EXPECT_EQ(bpe.decode(bpe.encode(text, flags)), valid_utf8(text, storage));
    wordpiece.encode(text, flags);
  }
}

// Ten times the text may not take much more than ten times as long; a quadratic step would take a hundred.
class LongText : public testing::TestWithParam<const char*> {
 protected:
  static void expect_linear(const LoadedTokenizer& t, const std::string& unit, const std::string& what) {
    ASSERT_TRUE(t) << t.error().message;
    constexpr std::size_t small = 40'000, large = 400'000;
    const double first = cpu_seconds(t, unit, small), second = cpu_seconds(t, unit, large);
    EXPECT_LT(second, 40 * first + 0.5)
        << what << " of " << testing::PrintToString(unit) << ": " << first << " s, " << second << " s";
  }

 private:
  static double cpu_seconds(const LoadedTokenizer& t, const std::string& unit, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += unit;
    const std::clock_t start = std::clock();  // of this process: other load does not count
    EXPECT_FALSE(t.encode(text).empty());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
};

const Strings units = {"a",        " ",  "1", "\n", "aA", "~", "\xF0\x9F\x98\x80", "\xFF", "\xE4\xB8\xAD",
                       "\xCC\x81", " \t"};

TEST_P(LongText, TakesLinearTime) {
  Strings tokens = byte_alphabet();
  for (const char* more : {"aa", "aaaa", "11", "\xC4\xA0\xC4\xA0"}) tokens.emplace_back(more);
  const LoadedTokenizer t(
      vocabulary("gpt2", tokens)
          .add("tokenizer.ggml.pre", GetParam())
          .add_array("tokenizer.ggml.merges", Strings{"a a", "aa aa", "1 1", "\xC4\xA0 \xC4\xA0"}));
  for (const std::string& unit : units) expect_linear(t, unit, GetParam());
}

INSTANTIATE_TEST_SUITE_P(PreTokenizers, LongText,
                         testing::Values("default", "gpt-2", "llama-bpe", "jais-2", "qwen35", "deepseek-llm",
                                         "deepseek-coder", "deepseek-v3", "tekken", "gpt-4o", "youtu",
                                         "exaone-moe", "kimi-k2"),
                         name_of_parameter);

TEST_F(LongText, OfTheOtherKinds) {
  const LoadedTokenizer spm(vocabulary("llama", {"<unk>", "a", "aa", "aaaa", space, space + space}));
  const LoadedTokenizer wordpiece(
      vocabulary("bert", {space + "a", "a", "aa"}).add("tokenizer.ggml.unknown_token_id", std::uint32_t{0}));
  for (const std::string& unit : units) expect_linear(spm, unit, "spm");
  const LoadedTokenizer with_long_token(vocabulary("bert", {space + "a", "a", std::string(40'000, 'a') + "b"})
                                            .add("tokenizer.ggml.unknown_token_id", std::uint32_t{0}));
  for (const std::string unit : {"a", "a ", "!", "\xE4\xB8\xAD"}) {
    expect_linear(wordpiece, unit, "wordpiece");
    expect_linear(with_long_token, unit, "wordpiece with a long token");
  }
}

TEST_F(LongText, OfManySpecials) {
  Strings tokens = {"<unk>"};
  std::vector<std::int32_t> types = {unknown};
  for (int i = 0; i < 2000; ++i) {
    tokens.push_back("<|special " + std::to_string(i) + "|>");
    types.push_back(control);
  }
  const LoadedTokenizer t(vocabulary("llama", tokens, types));
  ASSERT_TRUE(t) << t.error().message;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "<|special " + std::to_string(i) + "|>";
  EXPECT_EQ(t.encode(text, RUNNEL_PARSE_SPECIAL).size(), 2000U);
}

// Specials that are found at every byte but never wholly, and many that start with each other.
TEST_F(LongText, OfSpecialsThatNearlyMatch) {
  Strings tokens = {"<unk>", std::string(12'000, 'a') + "b", "b" + std::string(12'000, 'a') + "c"};
  for (int i = 0; i < 2000; ++i) tokens.push_back("a" + std::to_string(10'000 + i));
  for (std::size_t n = 2; n < 300; ++n) tokens.push_back("b" + std::string(n, 'a'));
  std::vector<std::int32_t> types(tokens.size(), user_defined);
  types[0] = unknown;
  const LoadedTokenizer t(vocabulary("llama", tokens, types));
  for (const std::string unit : {"a", "ba", "a1", "baaa"}) expect_linear(t, unit, "specials");
  expect_linear(t, "b" + std::string(500, 'a'), "specials");
}

// ---- specials all at once, against the definition: one after another, each in what the others have left

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void cut_one(std::string_view text, Token token, const Vocab& vocab, std::vector<Fragment>& out) {
  const std::string_view special = vocab.text(token);
  while (!text.empty()) {
    const std::size_t at = text.find(special);
    std::string_view before = text.substr(0, at);
    if (at != text.npos && vocab.has(token, token_strips_left)) {
      while (!before.empty() && is_space(before.back())) before.remove_suffix(1);
    }
    if (!before.empty()) out.push_back({-1, before});
    if (at == text.npos) return;
    out.push_back({token, {}});
    text.remove_prefix(at + special.size());
    if (vocab.has(token, token_strips_right)) {
      while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    }
  }
}

std::vector<Fragment> split_one_by_one(std::string_view text, const Vocab& vocab, bool parse_special) {
  if (text.empty()) return {};
  std::vector<Fragment> fragments = {{-1, text}};
  for (const Token id : vocab.partition_ids) {
    if (!parse_special && vocab.has(id, token_control | token_unknown)) continue;
    std::vector<Fragment> next;
    for (const Fragment& fragment : fragments) {
      if (fragment.token >= 0) {
        next.push_back(fragment);
      } else {
        cut_one(fragment.text, id, vocab, next);
      }
    }
    fragments.swap(next);
  }
  return fragments;
}

bool is_same(const Fragment& a, const Fragment& b) {
  return a.token == b.token &&
         (a.token >= 0 || (a.text.data() == b.text.data() && a.text.size() == b.text.size()));
}

// Where each fragment starts and ends in the text, too.
std::string written(const std::vector<Fragment>& fragments, std::string_view text) {
  std::string all;
  for (const Fragment& fragment : fragments) {
    if (fragment.token >= 0) {
      all += "[" + std::to_string(fragment.token) + "]";
    } else {
      all += "(" + std::to_string(fragment.text.data() - text.data()) + "+" +
             std::to_string(fragment.text.size()) + ")";
    }
  }
  return all;
}

class RandomSpecials {
 public:
  explicit RandomSpecials(unsigned seed) : random_(seed) {}

  std::string text(std::size_t longest, unsigned n_letters) {
    std::string text;
    for (auto n = random_() % (longest + 1); n > 0; --n) text += " abc\n"[random_() % n_letters];
    return text;
  }

  // As Vocab::load() leaves it, as far as the splitter looks.
  Vocab vocab(Strings& texts, std::size_t longest, unsigned n_letters) {
    for (auto n = 1 + random_() % 14; n > 0; --n) texts.push_back(text(longest, n_letters));
    Vocab vocab;
    vocab.texts.assign(texts.begin(), texts.end());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      constexpr unsigned kinds[] = {token_control, token_user_defined, token_user_defined, token_unknown,
                                    token_normal};
      constexpr unsigned strips[] = {0, 0, token_strips_left, token_strips_right,
                                     token_strips_left | token_strips_right};
      const unsigned kind = kinds[random_() % 5];
      vocab.attributes_of.push_back(static_cast<std::uint8_t>(kind | strips[random_() % 5]));
      if (kind != token_normal && !texts[i].empty()) vocab.partition_ids.push_back(static_cast<Token>(i));
    }
    std::stable_sort(vocab.partition_ids.begin(), vocab.partition_ids.end(),
                     [&vocab](Token a, Token b) { return vocab.text(a).size() > vocab.text(b).size(); });
    return vocab;
  }

 private:
  std::minstd_rand random_;
};

TEST(SpecialSplitter, IsAsOneAfterAnother) {
  RandomSpecials random(13);
  std::size_t n_fragments = 0;
  for (unsigned i = 0; i < 12'000; ++i) {
    const unsigned n_letters = 2 + i % 4;
    Strings texts;
    const Vocab vocab = random.vocab(texts, 1 + i % 7, n_letters);
    const SpecialSplitter splitter(vocab);
    for (int j = 0; j < 8; ++j) {
      const std::string text = random.text(60, n_letters);
      for (const bool parse_special : {false, true}) {
        const std::vector<Fragment> found = splitter.split(text, parse_special);
        const std::vector<Fragment> expected = split_one_by_one(text, vocab, parse_special);
        ASSERT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end(), is_same))
            << written(found, text) << ", not " << written(expected, text) << ": "
            << testing::PrintToString(text) << " by " << testing::PrintToString(texts);
        n_fragments += found.size();
      }
    }
  }
  EXPECT_GT(n_fragments, 1'000'000U);
}

}  // namespace
}  // namespace runnel::test
