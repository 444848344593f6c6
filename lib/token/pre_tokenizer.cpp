#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/token/pre_tokenizer.h"

#include <pcre2.h>

#include <limits>

#include "lib/text/utf8.h"

namespace runnel {
namespace {

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

const pcre2_code* as_code(const void* code) { return static_cast<const pcre2_code*>(code); }

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// PCRE2's own \s counts U+180E among the spaces; the tokenizers mean Unicode's White_Space.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += {'\\', escaped};
    }
  }
  return out;
}

// One thread's means of matching.
class Matcher {
 public:
  Matcher() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    // The patterns are ours and none backtracks without bound; the limits would only refuse long texts.
    if (context_) pcre2_set_match_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
  }
  explicit operator bool() const { return data_ && context_; }

  // The first match in text at or after `from`: 1 and its bounds, 0 without one, or an error of PCRE2.
  int find(const pcre2_code* code, std::string_view text, std::size_t from, std::uint32_t options,
           std::size_t& begin, std::size_t& end) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    options |= PCRE2_NO_UTF_CHECK;
    int n = pcre2_match(code, subject, text.size(), from, options, data_.get(), context_.get());
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {
      n = pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT, data_.get(), context_.get());
    }
    if (n == PCRE2_ERROR_NOMATCH) return 0;
    if (n < 0) return n;
    const std::size_t* bounds = pcre2_get_ovector_pointer(data_.get());
    begin = bounds[0];
    end = bounds[1];
    return 1;
  }

 private:
  std::unique_ptr<pcre2_match_data, FreeMatchData> data_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

// Cuts one piece by one pattern. 0, or an error of PCRE2.
int cut(const pcre2_code* code, std::string_view piece, Matcher& matcher,
        std::vector<std::uint32_t>& lengths) {
  std::size_t done = 0;
  const auto put = [&](std::size_t end) {
    if (end > done) lengths.push_back(static_cast<std::uint32_t>(end - done));
    done = end;
  };
  while (done < piece.size()) {
    std::size_t begin = 0, end = 0;
    const int found = matcher.find(code, piece, done, PCRE2_NOTEMPTY, begin, end);
    if (found < 0) return found;
    if (found == 0) break;
    put(begin);
    put(end);
  }
  put(piece.size());
  return 0;
}

}  // namespace

void PreTokenizer::Code::operator()(void* code) const { pcre2_code_free(static_cast<pcre2_code*>(code)); }

Result<PreTokenizer> PreTokenizer::compile(const char* const* patterns) {
  PreTokenizer result;
  for (; *patterns != nullptr; ++patterns) {
    const std::string pattern = with_unicode_spaces(*patterns);
    int code = 0;
    std::size_t offset = 0;
    pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE,
                                         &code, &offset, nullptr);
    if (compiled == nullptr) {
      return error(RUNNEL_UNSUPPORTED, "this PCRE2 does not take the pre-tokenizer pattern %s: %s at %zu",
                   pattern.c_str(), message_of(code).c_str(), offset);
    }
    result.codes_.emplace_back(compiled);
    // Where there is no JIT for the machine the pattern is interpreted.
    static_cast<void>(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE));
  }
  return result;
}

Result<void> PreTokenizer::split(std::string_view text, std::vector<std::uint32_t>& lengths) const {
  Matcher matcher;
  if (!matcher) return error(RUNNEL_NO_MEMORY, "out of memory for matching the pre-tokenizer's patterns");
  std::vector<std::uint32_t> pieces;
  if (!text.empty()) pieces.push_back(static_cast<std::uint32_t>(text.size()));
  std::vector<std::uint32_t> finer;
  for (const auto& code : codes_) {
    finer.clear();
    std::size_t begin = 0;
    for (const std::uint32_t length : pieces) {
      if (const int failed = cut(as_code(code.get()), text.substr(begin, length), matcher, finer);
          failed < 0) {
        return error(RUNNEL_NO_MEMORY, "the pre-tokenizer gave up on a text of %zu bytes: %s", text.size(),
                     message_of(failed).c_str());
      }
      begin += length;
    }
    pieces.swap(finer);
  }
  lengths.insert(lengths.end(), pieces.begin(), pieces.end());
  return {};
}

}  // namespace runnel
