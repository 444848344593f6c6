#include "lib/chat/chat.h"

#include "lib/chat/form.h"

namespace runnel {
namespace {

// How the file spells a token; "" for one the model does not have.
std::string spelled(const Tokenizer& tokenizer, Token token) {
  std::string text;
  if (token >= 0) tokenizer.decode(token, true, text);
  return text;
}

void append(ChatPieces& to, const ChatPieces& pieces) { to.insert(to.end(), pieces.begin(), pieces.end()); }

}  // namespace

const char* chat_form_name(std::size_t i) { return i < n_chat_forms() ? chat_form(i).name : nullptr; }

Result<Chat> Chat::open(Session& session, const Settings& settings) {
  const Model& model = session.model();
  const Tokenizer* tokenizer = model.tokenizer();
  if (!tokenizer)
    return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer, so there is nobody to talk to",
                 model.file().name().c_str());
  RUNNEL_ASSIGN(const std::string_view own, model.file().get_string("tokenizer.chat_template", ""));
  const std::string_view choice =
      settings.chat_template.empty() ? own : std::string_view(settings.chat_template);
  RUNNEL_ASSIGN(ChatTemplate chat_template,
                ChatTemplate::create(choice, spelled(*tokenizer, tokenizer->bos()),
                                     spelled(*tokenizer, tokenizer->eos())));
  Chat chat(session, std::move(chat_template));
  RUNNEL_TRY(chat.start(""));
  return chat;
}

Result<void> Chat::start(std::string_view system) {
  session_->reset();
  session_->set_answer_end(template_.end_text());
  system_ = system;
  answer_ = Answer::none;
  before_answer_ = -1;
  return {};
}

Result<void> Chat::read(const ChatPieces& pieces, bool add_bos) {
  std::vector<TextPiece> texts;
  for (const ChatPiece& piece : pieces) texts.push_back({piece.text, piece.markup});
  std::vector<Token> tokens;
  RUNNEL_TRY(session_->model().tokenizer()->encode_pieces(texts, add_bos, tokens));
  if (tokens.empty()) return {};
  before_answer_ = tokens.back();
  return session_->feed(tokens, nullptr, nullptr);
}

Result<runnel_finish> Chat::say(std::string_view text, std::int64_t n_tokens, runnel_text_fn on_text,
                                void* user) {
  ChatPieces pieces;
  const bool is_first = session_->position() == 0;
  if (is_first) {
    pieces = template_.first_turn(system_, text);
  } else {
    if (answer_ == Answer::open) append(pieces, template_.answer_end());
    append(pieces, template_.between());
    append(pieces, template_.turn(text));
  }
  RUNNEL_TRY(read(pieces, is_first));
  answer_position_ = session_->position();
  return answer(n_tokens, on_text, user);
}

Result<runnel_finish> Chat::answer(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  answer_ = Answer::open;
  RUNNEL_ASSIGN(const runnel_finish finish, session_->generate(n_tokens, on_text, user));
  // A stop text is one of the user's own or the template's end of an answer; the latter was read with the
  // answer.
  if (finish == RUNNEL_FINISH_STOP_TEXT && !template_.end_text().empty()) answer_ = Answer::ended;
  return finish;
}

Result<runnel_finish> Chat::again(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  if (before_answer_ < 0) return error(RUNNEL_BAD_ARGUMENT, "there is no answer yet to give again");
  if (!session_->rewind(answer_position_ - 1))
    return error(RUNNEL_BAD_ARGUMENT, "the question of the last answer has left the window; ask it again");
  RUNNEL_TRY(session_->feed({&before_answer_, 1}, nullptr, nullptr));
  return answer(n_tokens, on_text, user);
}

// The model plays on, whoever's turn it is: ends of turns are read like other tokens and show as line breaks.
Result<runnel_finish> Chat::go_on(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  if (session_->position() == 0) RUNNEL_TRY(read(template_.system(system_), true));
  if (session_->position() == 0)
    return error(RUNNEL_BAD_ARGUMENT, "this model has no token that starts a text: say something first");
  const std::int64_t before = session_->stats().generated_tokens;
  for (;;) {
    const std::int64_t done = session_->stats().generated_tokens - before;
    RUNNEL_ASSIGN(const runnel_finish finish, answer(n_tokens < 0 ? -1 : n_tokens - done, on_text, user));
    if (finish != RUNNEL_FINISH_END) return finish;
    const Token end = session_->last_end_token();
    RUNNEL_TRY(session_->feed({&end, 1}, nullptr, nullptr));
    answer_ = Answer::ended;
    before_answer_ = -1;
    if (on_text && on_text(user, "\n", 1, end) != 0) return RUNNEL_FINISH_STOPPED;
  }
}

}  // namespace runnel
