// What was said last in a conversation, as text. Its size is bounded, for conversations have no end: the
// oldest goes first.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/runnel.h"

namespace runnel {

struct Message {
  runnel_speaker speaker;
  std::string text;
};

class Transcript {
 public:
  static constexpr std::size_t max_bytes = std::size_t{1} << 16;  // of text that is kept in any case
  static constexpr std::size_t max_messages = 1024;

  Transcript() { messages_.reserve(max_messages + 1); }

  void add(runnel_speaker speaker, std::string text) noexcept;  // a message
  void append(std::string_view text);                           // to the last message, a model's
  void drop_answer();                                           // all after the last message of the user
  void drop_exchange();                                         // that message too
  void clear() { messages_.clear(); }

  std::span<const Message> messages() const { return messages_; }  // oldest first

 private:
  void drop_after_user(bool user_too);
  void shorten() noexcept;

  std::vector<Message> messages_;
};

}  // namespace runnel
