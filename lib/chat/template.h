// A conversation turned into the text that a model was trained on, part by part: what has been read is never
// read again, so each part follows the one before.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/form.h"
#include "lib/result.h"

namespace runnel {

// A TextPiece (token/tokenizer.h) that owns its text. The pieces of one part are one text: a token may span
// two of them.
struct ChatPiece {
  std::string text;
  bool markup;
};
using ChatPieces = std::vector<ChatPiece>;

class ChatTemplate {
 public:
  // choice: a form's name, or a template's Jinja source (the setting "template", or the model's own). bos and
  // eos: how the model spells these tokens, "" for one it does not have. What is not known is
  // RUNNEL_UNSUPPORTED.
  static Result<ChatTemplate> create(std::string_view choice, std::string_view bos, std::string_view eos);

  const char* name() const { return form_->name; }
  const std::string& default_system() const { return default_system_; }

  // The system prompt (empty: the default one) as it stands right after BOS.
  ChatPieces system(std::string_view prompt) const;
  // All that comes between BOS and what the user says first: what is to stay when exchanges leave. Any later
  // exchange reads on from here as the first one does. Starts with the pieces of system(prompt).
  ChatPieces opening(std::string_view prompt) const;
  // All that comes between BOS and the first answer. Starts with the pieces of opening(prompt). answer: the
  // one that is given; empty where the model gives it.
  ChatPieces first_turn(std::string_view prompt, std::string_view said, std::string_view answer = {}) const;
  // A later user message, up to where the model answers: what opens it, and the rest.
  ChatPieces user_start() const;
  ChatPieces user_rest(std::string_view said, std::string_view answer = {}) const;
  ChatPieces turn(std::string_view said, std::string_view answer = {}) const;

  // An answer that is given, in place of one that the model generates: with the blank in front that this one
  // would have, or without.
  ChatPieces answer(std::string_view text) const;
  // What ends an answer. When the model has generated its end itself only between() is left to read.
  ChatPieces answer_end() const;
  ChatPieces between() const;  // may be empty
  // The text that ends an answer, for models in which it is not a token: to be used as a stop text.
  std::string end_text() const;

 private:
  ChatTemplate(const ChatForm& form, std::string_view bos, std::string_view eos);
  void add_markup(ChatPieces& pieces, std::string_view markup) const;
  void add_said(ChatPieces& pieces, std::string_view said) const;
  void add_system(ChatPieces& pieces, std::string_view prompt) const;
  void add_user(ChatPieces& pieces, std::string_view said, std::string_view answer) const;

  const ChatForm* form_;
  std::string bos_, eos_;
  std::string default_system_;
};

}  // namespace runnel
