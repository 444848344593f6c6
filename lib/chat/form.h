// Chat forms as data: how a model was taught to see a conversation. One row a form (forms.cpp).
//
// A conversation is, as one text:
//   BOS start [system] user_before Q1 user_after answer_before [reasoning] A1 answer_end between
//   user_before Q2 ...
// In the strings {bos} and {eos} stand for the model's own tokens.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace runnel {

enum class SystemPlace {
  own,     // a message of its own in front of the first user message
  always,  // the same, and there also when there is no system prompt
  inside   // in the first user message, in front of its text
};

// What blanks are removed around.
enum class Trims {
  nothing,
  messages,  // what is said, and not the system prompt
  all
};

struct ChatForm {
  const char* name = "";
  const char* start = "";  // right after BOS, once
  const char* system_before = "";
  const char* system_after = "";
  const char* user_before = "";
  const char* user_after = "";
  const char* answer_before = "";
  const char* reasoning = "";   // begins A1; templates write earlier answers without any
  const char* answer_end = "";  // what the model generates to end its answer
  const char* between = "";     // from there to the next user message
  const char* default_system = "";
  SystemPlace system_place = SystemPlace::own;
  bool answers_with_blank = false;  // in front of an answer stands one, which the model generates with it
  Trims trims = Trims::nothing;
};

std::size_t n_chat_forms();
const ChatForm& chat_form(std::size_t i);
const ChatForm* find_chat_form(std::string_view name);
const char* chat_form_name(std::size_t i);  // null past the last
std::string chat_form_names();              // "chatml, llama2...", for messages

// The form of a template (Jinja source, as in tokenizer.chat_template); nullptr when it is none of those
// known. It is told by the texts that the template writes; templates are not run.
const ChatForm* recognise_chat_form(std::string_view source);

// The system prompt that a template of this form writes when it is given none, where it can be read off the
// source; else the form's own.
std::string default_system_prompt(const ChatForm& form, std::string_view source);

}  // namespace runnel
