#include "lib/chat/template.h"

#include "lib/text/printable.h"

namespace runnel {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// A form's text with the model's tokens in it, whose own spelling, from a file, may hold any text.
std::string with_tokens(std::string_view markup, std::string_view bos, std::string_view eos) {
  std::string text;
  while (!markup.empty()) {
    const bool is_bos = markup.starts_with("{bos}");
    if (is_bos || markup.starts_with("{eos}")) {
      text += is_bos ? bos : eos;
      markup.remove_prefix(5);
    } else {
      text += markup.front();
      markup.remove_prefix(1);
    }
  }
  return text;
}

void add_text(ChatPieces& pieces, std::string_view text) {
  if (!text.empty()) pieces.push_back({std::string(text), false});
}

// Of an answer as a model gives it whose reasoning the form has begun.
bool goes_on_reasoning(std::string_view answer) {
  return answer.find("</think>") != std::string_view::npos && !answer.starts_with("<think>");
}

// Names have no blanks, braces or markup in them; templates have.
bool looks_like_name(std::string_view choice) {
  return choice.size() <= 40 && choice.find_first_of(" \t\n{}<>'\"") == std::string_view::npos;
}

Error unknown(std::string_view choice) {
  const std::string what = looks_like_name(choice) && !choice.empty()
                               ? "there is no chat form \"" + printable(choice) + "\""
                           : choice.empty() ? "the model has no chat template"
                                            : "the model's chat template is of no form that is known";
  return error(RUNNEL_UNSUPPORTED, "%s; set \"template\" to one of: %s", what.c_str(),
               chat_form_names().c_str());
}

}  // namespace

ChatTemplate::ChatTemplate(const ChatForm& form, std::string_view bos, std::string_view eos)
    : form_(&form), bos_(bos), eos_(eos), default_system_(form.default_system) {}

Result<ChatTemplate> ChatTemplate::create(std::string_view choice, std::string_view bos,
                                          std::string_view eos) {
  if (const ChatForm* form = find_chat_form(choice)) return ChatTemplate(*form, bos, eos);
  const ChatForm* form = recognise_chat_form(choice);
  if (!form) return unknown(choice);
  ChatTemplate result(*form, bos, eos);
  result.default_system_ = default_system_prompt(*form, choice);
  return result;
}

ChatPieces ChatTemplate::system(std::string_view prompt) const {
  ChatPieces pieces;
  add_markup(pieces, form_->start);
  const std::string_view text = prompt.empty() ? default_system_ : prompt;
  if (!text.empty() && form_->system_place == SystemPlace::inside) add_markup(pieces, form_->user_before);
  if (!text.empty() || form_->system_place == SystemPlace::always) add_system(pieces, text);
  return pieces;
}

ChatPieces ChatTemplate::opening(std::string_view prompt) const {
  ChatPieces pieces = system(prompt);
  const bool opened =
      form_->system_place == SystemPlace::inside && !(prompt.empty() && default_system_.empty());
  if (!opened) add_markup(pieces, form_->user_before);
  return pieces;
}

ChatPieces ChatTemplate::first_turn(std::string_view prompt, std::string_view said,
                                    std::string_view answer) const {
  ChatPieces pieces = opening(prompt);
  add_user(pieces, said, answer);
  return pieces;
}

ChatPieces ChatTemplate::user_start() const {
  ChatPieces pieces;
  add_markup(pieces, form_->user_before);
  return pieces;
}

ChatPieces ChatTemplate::user_rest(std::string_view said, std::string_view answer) const {
  ChatPieces pieces;
  add_user(pieces, said, answer);
  return pieces;
}

ChatPieces ChatTemplate::turn(std::string_view said, std::string_view answer) const {
  ChatPieces pieces = user_start();
  add_user(pieces, said, answer);
  return pieces;
}

// The blank in front, the form's or the answer's own, is markup: after a special token it is not put in front
// of the one that SentencePiece writes there, but is that one, as in an answer that is generated.
ChatPieces ChatTemplate::answer(std::string_view text) const {
  if (form_->trims != Trims::nothing) text = trimmed(text);
  const bool has_blank = text.starts_with(' ');
  if (has_blank) text.remove_prefix(1);
  ChatPieces pieces;
  if (has_blank || form_->answers_with_blank) add_markup(pieces, " ");
  add_text(pieces, text);
  return pieces;
}

ChatPieces ChatTemplate::answer_end() const {
  ChatPieces pieces;
  add_markup(pieces, form_->answer_end);
  return pieces;
}

ChatPieces ChatTemplate::between() const {
  ChatPieces pieces;
  add_markup(pieces, form_->between);
  return pieces;
}

std::string ChatTemplate::end_text() const {
  const ChatPieces end = answer_end();
  return end.empty() ? std::string() : std::string(trimmed(end.front().text));
}

// Puts in the model's tokens and joins neighbours.
void ChatTemplate::add_markup(ChatPieces& pieces, std::string_view markup) const {
  std::string text = with_tokens(markup, bos_, eos_);
  if (text.empty()) return;
  if (!pieces.empty() && pieces.back().markup) {
    pieces.back().text += text;
  } else {
    pieces.push_back({std::move(text), true});
  }
}

void ChatTemplate::add_said(ChatPieces& pieces, std::string_view said) const {
  add_text(pieces, form_->trims != Trims::nothing ? trimmed(said) : said);
}

void ChatTemplate::add_system(ChatPieces& pieces, std::string_view prompt) const {
  add_markup(pieces, form_->system_before);
  add_text(pieces, form_->trims == Trims::all ? trimmed(prompt) : prompt);
  add_markup(pieces, form_->system_after);
}

// The rest of a user message whose start is there, and the start of the answer.
void ChatTemplate::add_user(ChatPieces& pieces, std::string_view said, std::string_view answer) const {
  add_said(pieces, said);
  add_markup(pieces, form_->user_after);
  add_markup(pieces, form_->answer_before);
  if (answer.empty() || goes_on_reasoning(answer)) add_markup(pieces, form_->reasoning);
}

}  // namespace runnel
