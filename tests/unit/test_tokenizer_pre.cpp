// The pieces that the pre-tokenizers cut texts into. The expected ones were compared with llama.cpp's, by way
// of the ids it gives for a vocabulary of all pairs of bytes; those where case changes end words with
// Mistral's own (tekken) and with the patterns of the models' files.
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>

#include "lib/text/utf8.h"
#include "lib/token/pre_tokenizer.h"

namespace runnel {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view name, std::string_view text) {
  const PreTokenizerRow* row = find_pre_tokenizer(name);
  if (row == nullptr) return {"unknown name"};
  const auto pre = PreTokenizer::compile(row->patterns);
  if (!pre) return {pre.error().message};
  std::vector<std::uint32_t> lengths;
  if (const auto done = pre->split(text, lengths); !done) return {done.error().message};
  Pieces pieces;
  for (const std::uint32_t length : lengths) {
    pieces.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

Pieces names() {
  Pieces result(1);
  for (const char c : known_pre_tokenizers()) {
    if (c == ',') {
      result.emplace_back();
    } else if (c != ' ') {
      result.back() += c;
    }
  }
  return result;
}

TEST(PreTokenizer, EveryKnownOneCompilesAndLosesNothing) {
  ASSERT_GT(names().size(), 70U);
  const std::string text =
      "Hello, y'all! We'RE 12345 \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82  \n\n\t x\xC3\xA9\xCC\x81 "
      "\xE4\xB8\xAD\xE6\x96\x87\xE3\x80\x82 \xF0\x9F\x98\x80\xE2\x80\x8D!? camelCase <sentinel:3> ~  ";
  for (const std::string& name : names()) {
    const Pieces pieces = split(name, text);
    EXPECT_GT(pieces.size(), 5U) << name;
    EXPECT_EQ(std::accumulate(pieces.begin(), pieces.end(), std::string()), text) << name;
    for (const std::string& piece : pieces) {
      std::string storage;
      EXPECT_EQ(valid_utf8(piece, storage), piece) << name << " cuts inside a character";
    }
    EXPECT_TRUE(split(name, "").empty()) << name;
  }
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(split("gpt-2", "I'm you'LL  2024x !?\n\n a"),
            (Pieces{"I", "'m", " you", "'", "LL", " ", " 2024", "x", " !?", "\n\n", " a"}));
  EXPECT_EQ(split("mpt", "a   "), (Pieces{"a", "   "}));
}

TEST(PreTokenizer, Llama3) {
  EXPECT_EQ(split("llama-bpe", "I'M 12345\r\n\n  x (y)!\n\n"),
            (Pieces{"I", "'M", " ", "123", "45", "\r\n\n", " ", " x", " (", "y", ")!\n\n"}));
  EXPECT_EQ(split("falcon3", "\t\tdef"), (Pieces{"\t", "\tdef"}));
}

TEST(PreTokenizer, Qwen2TakesDigitsOneByOne) {
  EXPECT_EQ(split("qwen2", "it's 123"), (Pieces{"it", "'s", " ", "1", "2", "3"}));
  // qwen35 keeps combining marks with their letters.
  EXPECT_EQ(split("qwen2", "e\xCC\x81z"), (Pieces{"e", "\xCC\x81z"}));
  EXPECT_EQ(split("qwen35", "e\xCC\x81z"), (Pieces{"e\xCC\x81z"}));
}

TEST(PreTokenizer, StarcoderFalconDefault) {
  EXPECT_EQ(split("starcoder", "ab 12 3"), (Pieces{"ab", " ", "1", "2", " ", "3"}));
  EXPECT_EQ(split("falcon", "ab 12345`x"), (Pieces{"ab", " ", "123", "45", "`", "x"}));
  EXPECT_EQ(split("default", "ab 12345, x"), (Pieces{"ab", " ", "123", "45", ",", " x"}));
}

TEST(PreTokenizer, Deepseek) {
  EXPECT_EQ(split("deepseek-llm", "It 123 \xE4\xB8\xAD\xE6\x96\x87, ok\r\n"),
            (Pieces{"It", " ", "123", " ", "\xE4\xB8\xAD\xE6\x96\x87", ",", " ok", "\r", "\n"}));
  EXPECT_EQ(split("deepseek-coder", "x1 12!"), (Pieces{"x", "1", " ", "1", "2", "!"}));
  EXPECT_EQ(split("deepseek-v3", "x1234 (y) ~z"), (Pieces{"x", "123", "4", " (", "y", ")", " ~", "z"}));
}

TEST(PreTokenizer, CaseChangesEndWords) {
  EXPECT_EQ(split("tekken", "helloWorld HTTPServer 12"),
            (Pieces{"hello", "World", " HTTPServer", " ", "1", "2"}));
  EXPECT_EQ(split("gpt-4o", "camelCase's 1234/\n"), (Pieces{"camel", "Case's", " ", "123", "4", "/\n"}));
}

// Vowel signs and accents are marks: without them in the patterns each would end a word.
TEST(PreTokenizer, CombiningMarksBelongToWords) {
  const std::string hindi = "नमस्ते दुनिया। स्वतन्त्रता और शक्ति";
  const Pieces words = {"नमस्ते", " दुनिया", "।", " स्वतन्त्रता", " और", " शक्ति"};
  for (const char* name : {"tekken", "gpt-4o", "llama4", "kimi-k2", "youtu"}) {
    EXPECT_EQ(split(name, hindi), words) << name;
    EXPECT_EQ(split(name, "ที่นี่"), (Pieces{"ที่นี่"})) << name;
    EXPECT_EQ(split(name, "e\xCC\x81z"), (Pieces{"e\xCC\x81z"})) << name;
  }
}

TEST(PreTokenizer, CaseOfLettersThatAreNotAscii) {
  for (const char* name : {"tekken", "gpt-4o", "kimi-k2", "youtu"})
    EXPECT_EQ(split(name, "СберБанк ÉTÉÉtude ǅep"), (Pieces{"Сбер", "Банк", " ÉTÉÉtude", " ǅep"})) << name;
}

TEST(PreTokenizer, BloomAndKimi) {
  EXPECT_EQ(split("bloom", "ab 12, (x)"), (Pieces{"ab", " 12", ", (", "x", ")"}));
  EXPECT_EQ(split("viking", "ab 12"), (Pieces{"ab", " ", "1", "2"}));
  EXPECT_EQ(split("kimi-k2", "ab\xE4\xB8\xADs's"), (Pieces{"ab", "\xE4\xB8\xAD", "s's"}));
  EXPECT_EQ(split("kimi-k2", "人々〇an"), (Pieces{"人々〇", "an"}));  // all of the script Han
  EXPECT_EQ(split("kimi-k2", "camelCase'sX"), (Pieces{"camel", "Case's", "X"}));
}

TEST(PreTokenizer, SpacesAreUnicodesWhiteSpace) {
  // U+3000 is white space; U+180E, which PCRE2 counts among the spaces by itself, is not.
  EXPECT_EQ(split("gpt-2",
                  "\xE3\x80\x80\xE3\x80\x80"
                  "a"),
            (Pieces{"\xE3\x80\x80", "\xE3\x80\x80", "a"}));
  EXPECT_EQ(split("gpt-2", "\xE1\xA0\x8E!"), (Pieces{"\xE1\xA0\x8E!"}));
}

// JIT gives up early on a pattern that begins with \s+; where there is none, the patterns themselves have to
// keep it from going over a run of spaces from each of them. Ten times the text, at most forty times as long.
TEST(PreTokenizer, SpacesInFrontOfADigitTakeLinearTimeWithoutJit) {
  for (const std::string& name : names()) {
    std::vector<std::string> interpreted;
    for (const char* const* p = find_pre_tokenizer(name)->patterns; *p != nullptr; ++p)
      interpreted.push_back("(*NO_JIT)" + std::string(*p));
    std::vector<const char*> patterns;
    for (const std::string& pattern : interpreted) patterns.push_back(pattern.c_str());
    patterns.push_back(nullptr);
    const auto pre = PreTokenizer::compile(patterns.data());
    ASSERT_TRUE(pre) << pre.error().message;
    const auto cpu_seconds = [&pre](std::size_t n_spaces) {
      std::vector<std::uint32_t> lengths;
      const std::clock_t start = std::clock();
      EXPECT_TRUE(pre->split(std::string(n_spaces, ' ') + "1", lengths));
      return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    };
    const double first = cpu_seconds(2000), second = cpu_seconds(20'000);
    EXPECT_LT(second, 40 * first + 0.1) << name << ": " << first << " s, " << second << " s";
  }
}

TEST(PreTokenizer, UnknownNamesAreNotFound) {
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
  EXPECT_EQ(find_pre_tokenizer("gpt"), nullptr);
  EXPECT_EQ(find_pre_tokenizer("GPT-2"), nullptr);
}

}  // namespace
}  // namespace runnel
