// Cutting a text into the pieces that byte-level BPE works on, by the regular expressions of a model's
// pre-tokenizer.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/result.h"

namespace runnel {

// What hangs on tokenizer.ggml.pre; a row of the table in pre_patterns.cpp.
struct PreTokenizerRow {
  std::string_view name;
  const char* const*
      patterns;  // applied in turn, each to the pieces that the one before left; null-terminated
  bool ignore_merges = false;  // a piece that is a token is taken whole
  bool add_bos = false;        // where the file does not say
};

// Null when the name is not known.
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);
std::string known_pre_tokenizers();  // all names, separated by commas

// A sequence of compiled patterns; immutable, for any number of threads.
class PreTokenizer {
 public:
  // `patterns` as in PreTokenizerRow. A pattern that does not compile is RUNNEL_UNSUPPORTED.
  static Result<PreTokenizer> compile(const char* const* patterns);

  // Appends the lengths in bytes of the pieces of `text`, which must be valid UTF-8: their sum is its size.
  // What a pattern matches becomes a piece, and so does what stands between two matches.
  Result<void> split(std::string_view text, std::vector<std::uint32_t>& lengths) const;

 private:
  struct Code {
    void operator()(void* code) const;
  };
  std::vector<std::unique_ptr<void, Code>> codes_;
};

}  // namespace runnel
