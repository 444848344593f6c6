#include "lib/token/special_split.h"

#include <algorithm>
#include <array>

namespace runnel {
namespace {

bool is_ascii_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view strip_left(std::string_view text) {
  while (!text.empty() && is_ascii_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty() && is_ascii_space(text.back())) text.remove_suffix(1);
  return text;
}

// The candidates that occur in the text at all, in their order. One pass over the text: a vocabulary may have
// thousands of specials, and most texts have none of them.
std::vector<Token> present_in(std::string_view text, const Vocab& vocab,
                              const std::vector<Token>& candidates) {
  std::array<std::vector<Token>, 256> unseen;  // by first byte
  for (const Token id : candidates) unseen[static_cast<unsigned char>(vocab.text(id).front())].push_back(id);
  std::vector<Token> seen;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<Token>& bucket = unseen[static_cast<unsigned char>(text[i])];
    if (bucket.empty()) continue;
    const std::string_view rest = text.substr(i);
    std::erase_if(bucket, [&](Token id) {
      if (!rest.starts_with(vocab.text(id))) return false;
      seen.push_back(id);
      return true;
    });
  }
  std::sort(seen.begin(), seen.end(), [&vocab](Token a, Token b) {
    const std::size_t na = vocab.text(a).size(), nb = vocab.text(b).size();
    return na != nb ? na > nb : a < b;
  });
  return seen;
}

// Cuts every occurrence of one token out of one stretch of text.
void cut(std::string_view text, Token token, const Vocab& vocab, std::vector<Fragment>& out) {
  const std::string_view special = vocab.text(token);
  while (!text.empty()) {
    const std::size_t at = text.find(special);
    std::string_view before = text.substr(0, at);
    if (at != text.npos && vocab.has(token, token_strips_left)) before = strip_right(before);
    if (!before.empty()) out.push_back({-1, before});
    if (at == text.npos) return;
    out.push_back({token, {}});
    text.remove_prefix(at + special.size());
    if (vocab.has(token, token_strips_right)) text = strip_left(text);
  }
}

}  // namespace

std::vector<Fragment> split_at_specials(std::string_view text, const Vocab& vocab, bool parse_special) {
  if (text.empty()) return {};
  std::vector<Token> candidates;
  for (const Token id : vocab.partition_ids) {
    if (parse_special || !vocab.has(id, token_control | token_unknown)) candidates.push_back(id);
  }
  std::vector<Fragment> fragments = {{-1, text}};
  std::vector<Fragment> next;
  for (const Token id : present_in(text, vocab, candidates)) {
    next.clear();
    for (const Fragment& fragment : fragments) {
      if (fragment.token >= 0) {
        next.push_back(fragment);
      } else {
        cut(fragment.text, id, vocab, next);
      }
    }
    fragments.swap(next);
  }
  return fragments;
}

}  // namespace runnel
