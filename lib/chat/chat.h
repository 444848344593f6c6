// A conversation over a session: what is said goes in by the model's template, the answer comes out, and
// nothing that was read is read again, but by pin() and by what goes back further than a model's own window.
//
// The pinned prefix is all that the template puts in front of what is said first: BOS, the system prompt, the
// start of a user message. An exchange goes from what is said to where the next user message has been opened,
// so that any later exchange stands as well behind the prefix as the first one did, whatever has left in
// between; also where the system prompt is part of the first user message (Llama 2, Mistral, Gemma). A token
// that spans the border belongs to the exchange: with SentencePiece the blank after "[INST]" does.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/template.h"
#include "lib/chat/transcript.h"
#include "lib/result.h"
#include "lib/session/session.h"

namespace runnel {

class SavedFieldReader;

class Chat {
 public:
  // Of a session that must outlive it; to be started before all else, which resets the session.
  static Result<Chat> open(Session& session, const Settings& settings);

  const char* form_name() const { return template_.name(); }
  const std::string& system_prompt() const { return system_.empty() ? template_.default_system() : system_; }

  // These are the calls of runnel.h: runnel_chat_system, _pin, _add, _say, _again, _undo, _continue.
  Result<void> start(std::string_view system);
  Result<void> pin(std::string_view text);
  Result<void> add(std::string_view text, std::string_view answer);
  Result<runnel_finish> say(std::string_view text, std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  Result<runnel_finish> again(std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  Result<void> undo();
  Result<runnel_finish> go_on(std::int64_t n_tokens, runnel_text_fn on_text, void* user);

  const Transcript& transcript() const { return transcript_; }
  Result<void> save(const std::string& path) const;  // see runnel_chat_save and runnel_chat_load
  Result<void> load(const std::string& path);

 private:
  // How the last answer stands in the stream: what is still to be read before the next message.
  enum class Answer { none, open, ended };

  struct Exchange {
    std::int64_t start;   // position before anything of it was read: the end of the last answer comes first
    std::int64_t begin;   // where what was said begins; a mark of the session
    std::int64_t answer;  // where the answer begins; -1: it cannot be given again
    Answer before;        // how the answer before it stood
  };

  struct Recording;

  struct Part {  // tokens to be read; an exchange begins after n_lead of them
    std::vector<Token> tokens;
    std::size_t n_lead;
  };

  Chat(Session& session, ChatTemplate chat_template)
      : session_(&session), template_(std::move(chat_template)) {}
  const Tokenizer& tokenizer() const { return *session_->model().tokenizer(); }
  Result<std::vector<Token>> encode(const ChatPieces& pieces, TextStart start) const;
  Result<Part> encode_after(const ChatPieces& lead, const ChatPieces& all, TextStart start) const;
  Result<Part> first_part(std::string_view system, std::string_view said, std::string_view answer = {}) const;
  ChatPieces rest_of_answer_end() const;
  Result<Part> later_part(std::string_view said, std::string_view answer) const;
  std::int64_t n_prefix(std::size_t n_lead) const;
  std::int64_t n_opening_read() const;
  bool begins_with_prefix(const Part& part) const;
  Result<void> read(std::span<const Token> tokens);
  Result<std::vector<Token>> encode_answer(std::string_view answer, std::span<const Token> before) const;
  Result<void> ask(std::string_view text, std::string_view answer = {});
  Result<void> hear(std::span<const Token> tokens, std::size_t n_answer, std::string_view text,
                    std::string_view answer);
  Result<void> go_back(std::int64_t position);
  Result<void> forget_all();
  Result<void> back_to_opening();
  Result<void> drop_last();
  Result<void> drop_unread();
  Result<void> open_with(std::string system);
  Result<void> begin_alone();
  Result<runnel_finish> answer(std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  void note_answer_end();
  Result<void> read_state(SavedFieldReader& in, std::int64_t n_read);
  Result<void> read_messages(SavedFieldReader& in);

  Session* session_;
  ChatTemplate template_;
  std::string system_;
  std::int64_t n_opening_ = 0;       // tokens in front of the first exchange, read or still to be read
  bool opens_user_ = true;           // whether the last of them open a user message
  std::vector<Exchange> exchanges_;  // those that may be taken back, oldest first
  Answer answer_ = Answer::none;
  bool is_reading_ = false;  // then what the members above tell of is in the stream in part
  Transcript transcript_;
};

}  // namespace runnel
