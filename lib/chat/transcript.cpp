#include "lib/chat/transcript.h"

#include <algorithm>
#include <utility>

#include "lib/text/utf8.h"

namespace runnel {
namespace {

// Text is dropped in pieces of this size, so that the rest is not moved for every token.
constexpr std::size_t slack = 4096;

bool is_from_user(const Message& message) { return message.speaker == RUNNEL_USER; }

// Where the first character at or after `at` begins.
std::size_t character_start(const std::string& text, std::size_t at) {
  while (at < text.size() && !begins_character(text[at])) ++at;
  return at;
}

}  // namespace

// There is room for it: no memory is taken.
void Transcript::add(runnel_speaker speaker, std::string text) noexcept {
  messages_.push_back({speaker, std::move(text)});
  shorten();
}

void Transcript::append(std::string_view text) {
  if (messages_.empty() || is_from_user(messages_.back())) messages_.push_back({RUNNEL_MODEL, {}});
  messages_.back().text += text;
  shorten();
}

void Transcript::drop_answer() { drop_after_user(false); }
void Transcript::drop_exchange() { drop_after_user(true); }

void Transcript::drop_after_user(bool user_too) {
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_from_user);
  messages_.erase(user_too && last != messages_.rend() ? last.base() - 1 : last.base(), messages_.end());
}

void Transcript::shorten() noexcept {
  if (messages_.size() > max_messages) messages_.erase(messages_.begin());
  std::size_t n_bytes = 0;
  for (const Message& message : messages_) n_bytes += message.text.size();
  while (n_bytes > max_bytes + slack) {
    std::string& oldest = messages_.front().text;
    const std::size_t n_over = n_bytes - max_bytes;
    if (oldest.size() <= n_over) {
      n_bytes -= oldest.size();
      messages_.erase(messages_.begin());
    } else {
      const std::size_t cut = character_start(oldest, n_over);
      oldest.erase(0, cut);
      n_bytes -= cut;
    }
  }
}

}  // namespace runnel
