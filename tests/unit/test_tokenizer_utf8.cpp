#include <gtest/gtest.h>

#include "lib/text/utf8.h"
#include "lib/token/unicode.h"

namespace runnel {
namespace {

constexpr const char* fffd = "\xEF\xBF\xBD";

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(code, bytes);
    const Utf8Char c = decode_utf8(bytes);
    ASSERT_TRUE(c.valid) << std::hex << static_cast<std::uint32_t>(code);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.bytes, bytes.size());
  }
}

TEST(Utf8, RejectsWhatTheStandardRejects) {
  for (const std::string_view bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC3", "\xE2\x82",
        "\xF0\x9F\x98", "\xC3("}) {
    const Utf8Char c = decode_utf8(bytes);
    EXPECT_FALSE(c.valid) << bytes;
    EXPECT_EQ(c.code, replacement_character);
    EXPECT_EQ(c.bytes, 1U);
  }
}

TEST(Utf8, StrayBytesBecomeReplacementCharacters) {
  std::string storage;
  const std::string_view good = "gr\xC3\xBC\xC3\x9F";
  EXPECT_EQ(valid_utf8(good, storage).data(), good.data());  // not copied
  EXPECT_EQ(valid_utf8("a\xFF\xC3(\xE2\x82", storage), std::string("a") + fffd + fffd + "(" + fffd + fffd);
  EXPECT_EQ(valid_utf8("", storage), "");
}

TEST(Utf8Stream, NeverGivesPartOfACharacter) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    Utf8Stream stream;
    std::string all;
    for (std::size_t i = 0; i < text.size(); i += step) {
      std::string out;
      stream.push(std::string_view(text).substr(i, step), out);
      std::string storage;
      EXPECT_EQ(valid_utf8(out, storage), out) << "part of a character";
      EXPECT_EQ(out.find(fffd), std::string::npos);
      all += out;
    }
    std::string rest;
    stream.flush(rest);
    EXPECT_EQ(rest, "");
    EXPECT_EQ(all, text);
  }
}

TEST(Utf8Stream, GivesACharacterWithItsLastByte) {
  Utf8Stream stream;
  std::string out;
  stream.push("\xF0\x9F", out);
  EXPECT_EQ(out, "");
  stream.push("\x98", out);
  EXPECT_EQ(out, "");
  stream.push("\x80", out);
  EXPECT_EQ(out, "\xF0\x9F\x98\x80");
}

TEST(Utf8Stream, HopelessBytesAreReplacedAtOnce) {
  Utf8Stream stream;
  std::string out;
  stream.push("\xFF", out);
  EXPECT_EQ(out, fffd);
  out.clear();
  stream.push("\xE2\x82", out);
  EXPECT_EQ(out, "");
  stream.push("A", out);
  EXPECT_EQ(out, std::string(fffd) + fffd + "A");
  out.clear();
  stream.push("\xC3", out);
  stream.flush(out);
  EXPECT_EQ(out, fffd);
  out.clear();
  stream.flush(out);
  EXPECT_EQ(out, "");
}

// Values from the Unicode Character Database.
TEST(Unicode, Properties) {
  EXPECT_TRUE(is_space(U'\u3000') && is_space(U'\n') && is_space(U'\u00A0'));
  EXPECT_FALSE(is_space(U'\u180E') || is_space(U'\u200B') || is_space(U'a'));
  EXPECT_TRUE(is_punctuation(U'!') && is_punctuation(U'\u3002') && is_punctuation(U'_'));
  EXPECT_FALSE(is_punctuation(U'$') || is_punctuation(U'+') || is_punctuation(U'a'));
  EXPECT_TRUE(is_mark(U'\u0301') && is_mark(U'\u093F'));
  EXPECT_TRUE(is_control(U'\u200B') && is_control(U'\u0007') && is_control(U'\uE000'));
  EXPECT_FALSE(is_control(U'\u0378'));  // unassigned
  EXPECT_TRUE(is_ideograph(U'\u4E2D'));
  EXPECT_FALSE(is_ideograph(U'\u3042'));
  EXPECT_EQ(to_lower(U'\u0416'), U'\u0436');
  EXPECT_EQ(to_lower(U'\u0130'), U'i');
  EXPECT_EQ(to_lower(U'\u0101'), U'\u0101');  // in a run of pairs, itself small
  EXPECT_EQ(to_lower(U'\u0100'), U'\u0101');
  EXPECT_EQ(decomposed_first(U'\u00E9'), U'e');
  EXPECT_EQ(decomposed_first(U'\uAC01'), U'\u1100');
  EXPECT_EQ(decomposed_first(U'\uD7A3'), U'\u1112');
  EXPECT_EQ(decomposed_first(U'\u212B'), U'A');
  EXPECT_EQ(decomposed_first(U'x'), U'x');
}

}  // namespace
}  // namespace runnel
