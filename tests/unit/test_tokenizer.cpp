// The rules of the three kinds, on vocabularies small enough to see.
#include <gtest/gtest.h>

#include <thread>

#include "lib/token/tokenizer.h"
#include "tokenizer_fixture.h"

namespace runnel::test {
namespace {

const std::string space(visible_space);

// ---- SentencePiece
// ---------------------------------------------------------------------------------------------

struct SpmToken {
  std::string text;
  float score;
  TokenType type;
};

GgufBuilder spm(const std::vector<SpmToken>& more) {
  std::vector<SpmToken> all = {{"<unk>", 0, unknown}, {"<s>", 0, control}, {"</s>", 0, control}};
  all.insert(all.end(), more.begin(), more.end());
  Strings texts;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  for (const SpmToken& token : all) {
    texts.push_back(token.text);
    types.push_back(token.type);
    scores.push_back(token.score);
  }
  return vocabulary("llama", texts, types).add_array("tokenizer.ggml.scores", scores);
}

TEST(Spm, MergesByScoreThenFromTheLeft) {
  const LoadedTokenizer t(spm({{"a", -9, normal},
                               {"b", -9, normal},
                               {"ab", -2, normal},
                               {"ba", -1, normal},
                               {"aa", -3, normal},
                               {"aab", -1, normal}})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.spell("ab"), (Strings{"ab"}));
  EXPECT_EQ(t.spell("aba"), (Strings{"a", "ba"}));  // ba scores higher
  EXPECT_EQ(t.spell("aaa"), (Strings{"aa", "a"}));  // the leftmost of equals
  EXPECT_EQ(t.spell("aab"), (Strings{"aab"}));      // ab first, then a + ab
  EXPECT_EQ(t.spell(""), Strings{});
}

TEST(Spm, SpacePrefixAndItsRemoval) {
  const LoadedTokenizer t(spm({{space, -1, normal}, {"a", -1, normal}, {space + "a", -1, normal}}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_TRUE(t->adds_bos());  // SentencePiece's defaults where the file says nothing
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_EQ(t.encode("a", RUNNEL_ADD_BOS), (Tokens{1, 5}));
  EXPECT_EQ(t.encode("", RUNNEL_ADD_BOS), (Tokens{1}));
  EXPECT_EQ(t.encode(" a"), (Tokens{3, 5}));
  EXPECT_EQ(t.decode(t.encode("a a", RUNNEL_ADD_BOS)), "a a");
  EXPECT_EQ(t.decode(t.encode(" a")), " a");
  EXPECT_EQ(t.decode({1, 5, 2}, true), "<s>a</s>");
}

// Words are merged one by one unless some token has a space inside.
TEST(Spm, TokensMayHoldSpaces) {
  const LoadedTokenizer t(spm({{space, -9, normal},
                               {"a", -9, normal},
                               {"b", -9, normal},
                               {space + "b", -5, normal},
                               {"a" + space + "b", -1, normal}})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("a b"), (Tokens{7}));
  EXPECT_EQ(t.encode("b b"), (Tokens{5, 6}));
  EXPECT_EQ(t.encode("b  b"), (Tokens{5, 3, 6}));
}

TEST(Spm, BytesAndUnknownCharacters) {
  const LoadedTokenizer bytes(
      spm({{"<0xC3>", 0, byte}, {"<0xA9>", 0, byte}, {"<0xFF>", 0, byte}, {"x", 0, normal}})
          .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes.encode("\xC3\xA9x"), (Tokens{3, 4, 6}));
  EXPECT_EQ(bytes.encode("\xFFx"), (Tokens{5, 6}));      // not UTF-8, but a byte that has a token
  EXPECT_EQ(bytes.encode("\xC3\xA8x"), (Tokens{0, 6}));  // one of the two bytes has none: unknown, once
  EXPECT_EQ(bytes.encode("yy"), (Tokens{0, 0}));         // each, where there are bytes
  EXPECT_EQ(bytes.decode({3, 4}), "\xC3\xA9");

  const LoadedTokenizer none(spm({{"x", 0, normal}}).add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none.encode("x\xF0\x9F\x98\x80y"), (Tokens{3, 0}));  // as SentencePiece: one for all in a row
  EXPECT_EQ(none.encode("yzxyz\n"), (Tokens{0, 3, 0}));
  EXPECT_EQ(none.encode("y<unk>y<s>y", RUNNEL_PARSE_SPECIAL), (Tokens{0, 0, 0, 1, 0}));
  EXPECT_EQ(none.decode({3, 0}), "x");
  EXPECT_EQ(none.decode({3, 0}, true), "x<unk>");
}

// What is spelled like one is text, also where its parts are tokens and its score is the best.
TEST(Spm, MakesNoControlUnknownOrByteTokenOfText) {
  const LoadedTokenizer t(spm({{"</", -1, normal},
                               {"s>", -1, normal},
                               {"<", -2, normal},
                               {"/", -2, normal},
                               {"s", -2, normal},
                               {">", -2, normal},
                               {"<0x", -1, normal},
                               {"41>", -1, normal},
                               {"<0", -1, normal},
                               {"41", -1, normal},
                               {"0", -2, normal},
                               {"x", -2, normal},
                               {"4", -2, normal},
                               {"1", -2, normal},
                               {"<0x41>", 0, byte},
                               {"!", 0, control}})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.spell("</s>"), (Strings{"</", "s>"}));
  EXPECT_EQ(t.spell("<0x41>"), (Strings{"<0x", "41>"}));
  EXPECT_EQ(t.encode("A"), (Tokens{17}));  // of which there is nothing else
  EXPECT_EQ(t.spell("!"), (Strings{"<unk>"}));
}

TEST(Spm, AddsEosWhenTheFileSaysSo) {
  const LoadedTokenizer t(spm({{space + "x", 0, normal}, {"x", 0, normal}, {space, 0, normal}})
                              .add("tokenizer.ggml.add_eos_token", true));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("x", RUNNEL_ADD_BOS), (Tokens{1, 3, 2}));
  EXPECT_EQ(t.encode("x"), (Tokens{3}));
}

// ---- special tokens
// --------------------------------------------------------------------------------------------

TEST(Specials, ControlTokensOnlyWhenAskedUserDefinedAlways) {
  const LoadedTokenizer t(spm({{"<", 0, normal},
                               {"s", 0, normal},
                               {">", 0, normal},
                               {"hi", 0, user_defined},
                               {"<s>!", 0, user_defined},
                               {"h", 0, normal}})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("<s>"), (Tokens{3, 4, 5}));
  EXPECT_EQ(t.encode("<s>", RUNNEL_PARSE_SPECIAL), (Tokens{1}));
  EXPECT_EQ(t.encode("<s><s>s<s>", RUNNEL_PARSE_SPECIAL), (Tokens{1, 1, 4, 1}));
  EXPECT_EQ(t.encode("shihis"), (Tokens{4, 6, 6, 4}));
  EXPECT_EQ(t.encode("<s>!<s>", RUNNEL_PARSE_SPECIAL), (Tokens{7, 1}));  // the longer one first
  EXPECT_EQ(t.encode("<s>!<s>"), (Tokens{7, 3, 4, 5}));
  EXPECT_TRUE(t->is_special(1));
  EXPECT_FALSE(t->is_special(6));
  EXPECT_EQ(t.decode({1, 6, 7}), "hi<s>!");
}

// As old files have it.
TEST(Specials, MarkupThatIsUserDefinedOnlyWhenAsked) {
  const LoadedTokenizer t(spm({{"<", 0, normal},
                               {"|", 0, normal},
                               {"E", 0, normal},
                               {">", 0, normal},
                               {"<|E|>", 0, user_defined},
                               {"<｜E｜>", 0, user_defined},
                               {"｜", 0, normal}})
                              .add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("<|E|>"), (Tokens{3, 4, 5, 4, 6}));
  EXPECT_EQ(t.encode("<｜E｜>"), (Tokens{3, 9, 5, 9, 6}));
  EXPECT_EQ(t.encode("<|E|><｜E｜>", RUNNEL_PARSE_SPECIAL), (Tokens{7, 8}));
  EXPECT_EQ(t.decode({7}), "<|E|>");
}

// A chat's text: what the user typed is never a special token, and tokens may span the borders of pieces.
TEST(Specials, OnlyInTheMarkupOfPieces) {
  const LoadedTokenizer t(
      spm({{"<", 0, normal}, {"s", 0, normal}, {">", 0, normal}, {"a", 0, normal}, {"aa", 1, normal}})
          .add("tokenizer.ggml.add_space_prefix", false)
          .add("tokenizer.ggml.add_eos_token", true));
  ASSERT_TRUE(t) << t.error().message;
  const std::vector<TextPiece> pieces = {{"<s>a", true}, {"a<s", false}, {">", true}, {"</s>", true}};
  Tokens tokens = {9};
  ASSERT_TRUE(t->encode_pieces(pieces, TextStart::bos, tokens));
  EXPECT_EQ(tokens, (Tokens{9, 1, 1, 7, 3, 4, 5, 2}));
}

TEST(Specials, SpacePrefixAfterEverySpecial) {
  const LoadedTokenizer t(spm({{space, -1, normal}, {"a", -1, normal}}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("a<s>a a", RUNNEL_PARSE_SPECIAL), (Tokens{3, 4, 1, 3, 4, 3, 4}));
}

// The blank that Mistral's forms write after a special token is that prefix; one that is said comes after it.
TEST(Specials, BlanksOfMarkupAreTheSpacePrefix) {
  const LoadedTokenizer t(
      spm({{space, -9, normal}, {"a", -9, normal}, {space + "a", -1, normal}, {"[I]", 0, control}}));
  ASSERT_TRUE(t) << t.error().message;
  const auto encode = [&t](std::vector<TextPiece> pieces, TextStart start) {
    Tokens tokens;
    EXPECT_TRUE(t->encode_pieces(pieces, start, tokens));
    return tokens;
  };
  EXPECT_EQ(encode({{"[I] ", true}, {"a", false}, {"</s>[I] ", true}, {" a", false}}, TextStart::bos),
            (Tokens{1, 6, 5, 2, 6, 3, 5}));
  EXPECT_EQ(encode({{"[I]", true}, {"a", false}, {"</s>a", true}}, TextStart::bos), (Tokens{1, 6, 5, 2, 5}));
  EXPECT_EQ(encode({{"[I]", true}, {" a", false}}, TextStart::bos), (Tokens{1, 6, 3, 5}));
  EXPECT_EQ(encode({{" a", true}}, TextStart::bos), (Tokens{1, 5}));
  EXPECT_EQ(encode({{" [I]", true}}, TextStart::bos), (Tokens{1, 3, 6}));
  EXPECT_EQ(t.encode("<s> a", RUNNEL_PARSE_SPECIAL), (Tokens{1, 3, 5}));  // no form's blank
}

TEST(Specials, TextThatGoesOnHasNoSpacePrefix) {
  const LoadedTokenizer t(
      spm({{space, -9, normal}, {"a", -9, normal}, {space + "a", -1, normal}, {"[U]", 0, user_defined}}));
  ASSERT_TRUE(t) << t.error().message;
  const std::vector<TextPiece> pieces = {{"a </s>a", true}};
  for (const Token special : {1, 6}) EXPECT_EQ(t->start_after(special), TextStart::after_special) << special;
  for (const Token other : {0, 4, 5, -1, 7}) EXPECT_EQ(t->start_after(other), TextStart::inside) << other;
  Tokens inside, after;
  ASSERT_TRUE(t->encode_pieces(pieces, TextStart::inside, inside));
  ASSERT_TRUE(t->encode_pieces(pieces, TextStart::after_special, after));
  EXPECT_EQ(inside, (Tokens{4, 3, 2, 5}));
  EXPECT_EQ(after, (Tokens{5, 3, 2, 5}));
}

TEST(Specials, Phi3SwallowsSpacesAfterItsSpecials) {
  const std::vector<SpmToken> tokens = {{space, -1, normal}, {"a", -1, normal}, {"<|user|>", 0, control}};
  const auto named = [&tokens](const char* name, const char* architecture) {
    return spm(tokens)
        .add("general.name", name)
        .add("general.architecture", architecture)
        .add("tokenizer.ggml.add_space_prefix", false);
  };
  for (const GgufBuilder& file : {named("Phi-3 Mini", "llama"), named("Phi 3.5 Mini Instruct", "phi3")}) {
    const LoadedTokenizer phi(file);
    ASSERT_TRUE(phi) << phi.error().message;
    EXPECT_EQ(phi.encode("<|user|> \n a<s> a", RUNNEL_PARSE_SPECIAL), (Tokens{5, 4, 1, 3, 4}));
  }
  const LoadedTokenizer phi(named("Phi-3 Mini", "llama"));
  EXPECT_EQ(phi->start_after(5), TextStart::after_stripping);
  EXPECT_EQ(phi->start_after(1), TextStart::after_special);
  for (const bool is_markup : {true, false}) {
    Tokens parts, later;
    const std::vector<TextPiece> pieces = {{"<|user|>", true}, {" \n", true}, {" a a", is_markup}};
    ASSERT_TRUE(phi->encode_pieces(pieces, TextStart::after_special, parts));
    EXPECT_EQ(parts, (Tokens{5, 4, 3, 4}));
    ASSERT_TRUE(phi->encode_pieces(std::span(pieces).last(2), TextStart::after_stripping, later));
    EXPECT_EQ(later, (Tokens{4, 3, 4}));
  }
  const LoadedTokenizer other(named("Phi 3.5 Mini Instruct", "llama"));
  EXPECT_EQ(other.encode("<|user|> a", RUNNEL_PARSE_SPECIAL), (Tokens{5, 3, 4}));

  // Phi 4 mini: the same architecture, another tokenizer.
  const LoadedTokenizer bpe(vocabulary("gpt2", {"<|user|>", "a", "\u0120"}, {control, normal, normal})
                                .add("general.name", "Phi 4 Mini Instruct")
                                .add("general.architecture", "phi3")
                                .add_array("tokenizer.ggml.merges", Strings{})
                                .add("tokenizer.ggml.pre", "gpt-2"));
  ASSERT_TRUE(bpe) << bpe.error().message;
  EXPECT_EQ(bpe.encode("<|user|> a", RUNNEL_PARSE_SPECIAL), (Tokens{0, 2, 1}));
}

TEST(Specials, EndsOfGeneration) {
  const LoadedTokenizer t(spm({{"<|im_end|>", 0, normal},      // 3: recognised, and made a control token
                               {"<|endoftext|>", 0, control},  // 4
                               {"<|file_sep|>", 0, control},   // 5
                               {"x", 0, normal}}));            // 6
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->eot(), 3);
  EXPECT_TRUE(t->is_special(3));
  for (const Token end : {2, 3, 4, 5}) EXPECT_TRUE(t->ends_generation(end)) << end;
  for (const Token other : {0, 1, 6, -1, 7, 1 << 30}) EXPECT_FALSE(t->ends_generation(other)) << other;

  const LoadedTokenizer named(spm({{"<|im_end|>", 0, control}, {"x", 0, normal}})
                                  .add("tokenizer.ggml.eot_token_id", std::uint32_t{4}));
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->eot(), 4);
  EXPECT_TRUE(named->ends_generation(4) && named->ends_generation(3));

  const LoadedTokenizer harmony(
      spm({{"<|return|>", 0, control}, {"<|call|>", 0, control}, {"<|end|>", 0, control}}));
  ASSERT_TRUE(harmony) << harmony.error().message;
  EXPECT_TRUE(harmony->ends_generation(3) && harmony->ends_generation(4));
  EXPECT_FALSE(harmony->ends_generation(5));

  for (const auto type : {normal, user_defined, control}) {  // </s>, which is HTML in Gemma's vocabularies
    const LoadedTokenizer html(vocabulary("llama", {"<unk>", "<bos>", "<eos>", "<s>", "</s>"},
                                          {unknown, control, control, normal, type})
                                   .add_array("tokenizer.ggml.scores", std::vector<float>(5))
                                   .add("tokenizer.ggml.bos_token_id", std::uint32_t{1})
                                   .add("tokenizer.ggml.eos_token_id", std::uint32_t{2}));
    ASSERT_TRUE(html) << html.error().message;
    EXPECT_TRUE(html->ends_generation(2));
    EXPECT_EQ(html->ends_generation(4), type == control);
    EXPECT_EQ(html->is_special(4), type == control);
  }
}

// As llama.cpp's convert-llama2c-to-ggml writes them.
TEST(Spm, IdsOfMinusOneAreAsIfAbsent) {
  GgufBuilder file = spm({{"x", 0, normal}});
  for (const char* name : {"bos_token_id", "eos_token_id", "unknown_token_id", "seperator_token_id",
                           "padding_token_id", "eot_token_id"})
    file.add(std::string("tokenizer.ggml.") + name, std::uint32_t{0xFFFFFFFF});
  const LoadedTokenizer t(file);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_EQ(t->eot(), -1);
}

// ---- byte-level BPE
// --------------------------------------------------------------------------------------------

GgufBuilder bpe(std::string_view pre, const Strings& more, const Strings& merges) {
  Strings tokens = byte_alphabet();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return vocabulary("gpt2", tokens).add("tokenizer.ggml.pre", pre).add_array("tokenizer.ggml.merges", merges);
}

TEST(Bpe, MergesInTheListsOrder) {
  const LoadedTokenizer t(bpe("gpt-2",
                              {"ab", "bc", "abc",
                               "\xC4\xA0"
                               "a"},
                              {"b c", "a b", "a bc", "\xC4\xA0 a"}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.spell("abc"), (Strings{"abc"}));
  EXPECT_EQ(t.spell("ab"), (Strings{"ab"}));
  EXPECT_EQ(t.spell("abab"), (Strings{"ab", "ab"}));
  EXPECT_EQ(t.spell("a a"), (Strings{"a", " a"}));
  EXPECT_EQ(t.spell("abcb"), (Strings{"abc", "b"}));
  EXPECT_FALSE(t->adds_bos());
  EXPECT_EQ(t->bos(), -1);
  EXPECT_EQ(t.encode("\n\xC3\xA9"), (Tokens{'\n', 0xC3, 0xA9}));
  EXPECT_EQ(t.decode(t.encode("abc \xC3\xA9\n\x01")), "abc \xC3\xA9\n\x01");
}

TEST(Bpe, StrayBytesAreReadAsReplacementCharacters) {
  const LoadedTokenizer t(bpe("gpt-2", {}, {}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("a\xFF"), (Tokens{'a', 0xEF, 0xBF, 0xBD}));
}

TEST(Bpe, WholePiecesWhereMergesAreIgnored) {
  const Strings more = {"hello"};
  EXPECT_EQ(LoadedTokenizer(bpe("llama-bpe", more, {})).spell("hello"), (Strings{"hello"}));
  EXPECT_EQ(LoadedTokenizer(bpe("gpt-2", more, {})).spell("hello"), (Strings{"h", "e", "l", "l", "o"}));
}

// Merges may pass through strings that are no tokens; what stays such a string is spelled by its characters.
TEST(Bpe, MergesThroughStringsThatAreNoTokens) {
  const LoadedTokenizer t(bpe("gpt-2", {"abc"}, {"a b", "ab c"}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.spell("abc"), (Strings{"abc"}));
  EXPECT_EQ(t.spell("abd"), (Strings{"a", "b", "d"}));
}

TEST(Bpe, BosByTheFileOrThePreTokenizer) {
  const auto with_bos = [](std::string_view pre) {
    return bpe(pre, {"<s>"}, {}).add("tokenizer.ggml.bos_token_id", std::uint32_t{256});
  };
  EXPECT_TRUE(LoadedTokenizer(with_bos("llama-bpe"))->adds_bos());
  EXPECT_FALSE(LoadedTokenizer(with_bos("qwen2"))->adds_bos());
  EXPECT_FALSE(LoadedTokenizer(with_bos("llama-bpe").add("tokenizer.ggml.add_bos_token", false))->adds_bos());
  const LoadedTokenizer t(with_bos("qwen2").add("tokenizer.ggml.add_bos_token", true));
  EXPECT_EQ(t.encode("a", RUNNEL_ADD_BOS), (Tokens{256, 'a'}));
}

// ---- WordPiece
// -------------------------------------------------------------------------------------------------

GgufBuilder wordpiece() {
  return vocabulary(
             "bert",
             {"[UNK]", "[CLS]", "[SEP]", space + "hello", "lo", space + "hel", space + "!",
              space + "\xE4\xB8\xAD", space + "w", "orld", space + "hell"},
             {control, control, control, normal, normal, normal, normal, normal, normal, normal, normal})
      .add("tokenizer.ggml.unknown_token_id", std::uint32_t{0})
      .add("tokenizer.ggml.cls_token_id", std::uint32_t{1})
      .add("tokenizer.ggml.seperator_token_id", std::uint32_t{2});
}

TEST(WordPiece, LongestTokensFirst) {
  const LoadedTokenizer t(wordpiece());
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("hello world"), (Tokens{3, 8, 9}));
  EXPECT_EQ(t.encode("hello", RUNNEL_ADD_BOS), (Tokens{1, 3, 2}));
  EXPECT_EQ(t.encode("hello!!"), (Tokens{3, 6, 6}));
  EXPECT_EQ(t.encode("hello\xE4\xB8\xADworld"), (Tokens{3, 7, 8, 9}));
  EXPECT_EQ(t.encode("hellolo"), (Tokens{3, 4}));
  EXPECT_EQ(t.encode("xyz hellx"), (Tokens{0, 0}));  // a word that is not covered is unknown as a whole
  EXPECT_EQ(t.decode({1, 3, 8, 9, 6, 2}), "hello world !");
}

TEST(WordPiece, KnowsNoWordOfMoreThanAHundredCharacters) {
  const LoadedTokenizer t(wordpiece());
  const auto with_ends = [](std::string word, int n) {
    while (n-- > 0) word += "lo";
    return word;
  };
  Tokens longest = {10};
  longest.resize(49, 4);
  EXPECT_EQ(t.encode(with_ends("hell", 48)), longest);
  EXPECT_EQ(t.encode(with_ends("hello", 48) + " hello"), (Tokens{0, 3}));
  const std::string zhe = "\xD0\xB6";  // two bytes
  const LoadedTokenizer cyrillic(vocabulary("bert", {"[UNK]", space + zhe, zhe})
                                     .add("tokenizer.ggml.unknown_token_id", std::uint32_t{0}));
  std::string word;
  for (int i = 0; i < 100; ++i) word += zhe;
  EXPECT_EQ(cyrillic.encode(word).size(), 100U);
  EXPECT_EQ(cyrillic.encode(word + zhe).size(), 1U);
}

TEST(WordPiece, NormalisesCaseAccentsAndControls) {
  const LoadedTokenizer t(wordpiece());
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.encode("  H\xC3\x89LL\xCC\x81\xE2\x80\x8BO\t\n"), (Tokens{3}));
  EXPECT_EQ(t.encode("hel\xFFlo"), (Tokens{3}));
  const LoadedTokenizer cased(wordpiece().add("tokenizer.ggml.normalizer.lowercase", false));
  ASSERT_TRUE(cased) << cased.error().message;
  EXPECT_EQ(cased.encode("hello HELLO"), (Tokens{3, 0}));
}

// ---- all
// -------------------------------------------------------------------------------------------------------

TEST(Tokenizers, OneServesManyThreads) {
  const LoadedTokenizer t(bpe("llama-bpe",
                              {"ab",
                               "\xC4\xA0"
                               "ab"},
                              {"a b", "\xC4\xA0 ab"}));
  ASSERT_TRUE(t) << t.error().message;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "ab ab12 \n";
  const Tokens expected = t.encode(text);
  std::vector<Tokens> found(4);
  std::vector<std::thread> threads;
  for (Tokens& result : found) threads.emplace_back([&] { result = t.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& result : found) EXPECT_EQ(result, expected);
}

TEST(Tokenizers, IdsOutOfRangeStandForNothing) {
  const LoadedTokenizer t(spm({{"x", 0, normal}}));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t.decode({-1, 3, 4, 1 << 30}), "x");
  EXPECT_FALSE(t->is_special(-1));
  EXPECT_FALSE(t->is_special(4));
}

TEST(Tokenizers, OutputIsAppended) {
  const LoadedTokenizer t(spm({{"x", 0, normal}}).add("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(t) << t.error().message;
  Tokens tokens = {7};
  ASSERT_TRUE(t->encode("xx", RUNNEL_ADD_BOS, tokens));
  EXPECT_EQ(tokens, (Tokens{7, 1, 3, 3}));
}

}  // namespace
}  // namespace runnel::test
