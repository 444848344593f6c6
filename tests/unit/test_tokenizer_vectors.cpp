// The vocabularies of real models in ../shared/tokenizers with texts and the ids llama.cpp's own tests
// expect, and the small trained models.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/folder.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"
#include "tokenizer_fixture.h"

namespace runnel::test {
namespace {

Strings split(const std::string& text, const std::string& separator) {
  Strings parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(separator, begin)) != std::string::npos;
       begin = at + separator.size()) {
    parts.push_back(text.substr(begin, at - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Tokens ids_of(const std::string& line) {
  std::istringstream in(line);
  Tokens ids;
  for (Token id; in >> id;) ids.push_back(id);
  return ids;
}

#define RUNNEL_OPEN_TOKENIZER(path)              \
  RUNNEL_NEEDS_SHARED(path);                     \
  const std::string model = shared(path);        \
  const auto file = GgufFile::open(model);       \
  ASSERT_TRUE(file) << file.error().message;     \
  const auto tokenizer = Tokenizer::load(*file); \
  ASSERT_TRUE(tokenizer) << tokenizer.error().message

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, EveryLineMatches) {
  const std::string name = std::string("tokenizers/ggml-vocab-") + GetParam() + ".gguf";
  RUNNEL_OPEN_TOKENIZER(name);
  const Strings texts = split(read_bytes(model + ".inp"), "\n__ggml_vocab_test__\n");
  const Strings lines = split(read_bytes(model + ".out"), "\n");
  ASSERT_GT(texts.size(), 40U);
  ASSERT_GE(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Tokens ids;
    ASSERT_TRUE((*tokenizer)->encode(texts[i], RUNNEL_TEXT_ONLY, ids));
    EXPECT_EQ(ids, ids_of(lines[i])) << "text " << i << ": " << texts[i];
  }
}

// Byte-level BPE and SentencePiece lose nothing; WordPiece drops case, accents and spaces.
class RoundTrip : public Vectors {};

TEST_P(RoundTrip, DecodingGivesTheTextBack) {
  const std::string name = std::string("tokenizers/ggml-vocab-") + GetParam() + ".gguf";
  RUNNEL_OPEN_TOKENIZER(name);
  for (const std::string& text : split(read_bytes(model + ".inp"), "\n__ggml_vocab_test__\n")) {
    for (const unsigned flags : {RUNNEL_TEXT_ONLY, RUNNEL_ADD_BOS}) {
      Tokens ids;
      ASSERT_TRUE((*tokenizer)->encode(text, flags, ids));
      EXPECT_EQ((*tokenizer)->decode_all(ids.data(), ids.size(), false), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Vectors,
                         testing::Values("llama-spm", "gpt-2", "deepseek-llm", "bert-bge"),
                         name_of_parameter);
INSTANTIATE_TEST_SUITE_P(Tokenizers, RoundTrip, testing::Values("llama-spm", "gpt-2", "deepseek-llm"),
                         name_of_parameter);

TEST(TokenizerModels, CharactersOutsideAVocabularyWithoutBytesAreUnknown) {
  RUNNEL_OPEN_TOKENIZER("models/babyllama-f32.gguf");
  Tokens ids;
  ASSERT_TRUE((*tokenizer)->encode("Hi \xE6\xBC\xA2\xF0\x9F\x98\x80!", RUNNEL_ADD_BOS, ids));
  const auto id = [&](std::string_view text) { return (*tokenizer)->find(text); };
  EXPECT_EQ(ids, (Tokens{1, id(visible_space), id("H"), id("i"), id(visible_space), 0, id("!")}));
}

TEST(TokenizerModels, StoriesModelReadsBytesAndWords) {
  RUNNEL_OPEN_TOKENIZER("models/stories260K-f32.gguf");
  EXPECT_TRUE((*tokenizer)->adds_bos());
  EXPECT_EQ((*tokenizer)->bos(), 1);
  EXPECT_TRUE((*tokenizer)->ends_generation(2));
  Tokens ids;
  ASSERT_TRUE((*tokenizer)->encode("Once upon a time \xE6\xBC\xA2", RUNNEL_ADD_BOS, ids));
  EXPECT_EQ(ids, (Tokens{1, 403, 407, 261, 378, 410, 233, 191, 165}));
}

}  // namespace
}  // namespace runnel::test
