// A conversation over a session: what is said goes in by the model's template, the answer comes out, and
// nothing that was read is ever read again.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/template.h"
#include "lib/result.h"
#include "lib/session.h"

namespace runnel {

class Chat {
 public:
  // Resets the session, which must outlive the chat.
  static Result<Chat> open(Session& session, const Settings& settings);

  const char* form_name() const { return template_.name(); }

  // These are the calls of runnel.h: runnel_chat_system, _say, _again, _continue.
  Result<void> start(std::string_view system);
  Result<runnel_finish> say(std::string_view text, std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  Result<runnel_finish> again(std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  Result<runnel_finish> go_on(std::int64_t n_tokens, runnel_text_fn on_text, void* user);

 private:
  // How the last answer stands in the stream: what is still to be read before the next message.
  enum class Answer { none, open, ended };

  Chat(Session& session, ChatTemplate chat_template)
      : session_(&session), template_(std::move(chat_template)) {}
  Result<void> read(const ChatPieces& pieces, bool add_bos);
  Result<runnel_finish> answer(std::int64_t n_tokens, runnel_text_fn on_text, void* user);

  Session* session_;
  ChatTemplate template_;
  std::string system_;
  Answer answer_ = Answer::none;
  std::int64_t answer_position_ = 0;  // where the last answer starts
  Token before_answer_ = -1;          // the token in front of it; -1: there is no answer
};

// Names of the known forms; null past the end.
const char* chat_form_name(std::size_t i);

}  // namespace runnel
