#include "lib/chat/chat.h"

#include <algorithm>

#include "lib/chat/form.h"

namespace runnel {
namespace {

// How the file spells a token; "" for one the model does not have.
std::string spelled(const Tokenizer& tokenizer, Token token) {
  std::string text;
  if (token >= 0) tokenizer.decode(token, true, text);
  return text;
}

// The stream is read, as long as it lives.
class Reading {
 public:
  explicit Reading(bool& is_reading) : is_reading_(is_reading) { is_reading_ = true; }
  ~Reading() { is_reading_ = false; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  bool& is_reading_;
};

void append(ChatPieces& to, const ChatPieces& pieces) { to.insert(to.end(), pieces.begin(), pieces.end()); }

}  // namespace

// Passes pieces of an answer on, and keeps them: all that the chat tells of is as it is when a callback saves
// it.
struct Chat::Recording {
  Chat* chat;
  runnel_text_fn on_text;
  void* user;

  static int piece(void* self, const char* text, std::size_t n_bytes, Token token) {
    const auto* recording = static_cast<const Recording*>(self);
    recording->chat->transcript_.append({text, n_bytes});
    recording->chat->note_answer_end();
    return recording->on_text ? recording->on_text(recording->user, text, n_bytes, token) : 0;
  }
};

Result<Chat> Chat::open(Session& session, const Settings& settings) {
  const Model& model = session.model();
  const Tokenizer* tokenizer = model.tokenizer();
  if (!tokenizer)
    return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer, so there is nobody to talk to",
                 model.file().name().c_str());
  RUNNEL_ASSIGN(const std::string_view own, model.file().get_string("tokenizer.chat_template", ""));
  const std::string_view choice =
      settings.chat_template.empty() ? own : std::string_view(settings.chat_template);
  Result<ChatTemplate> chat_template = ChatTemplate::create(choice, spelled(*tokenizer, tokenizer->bos()),
                                                            spelled(*tokenizer, tokenizer->eos()));
  if (!chat_template)
    return error(chat_template.error().status, "%s: %s", model.file().name().c_str(),
                 chat_template.error().message.c_str());
  return Chat(session, std::move(*chat_template));
}

Result<void> Chat::start(std::string_view system) {
  RUNNEL_TRY(Tokenizer::check_size(0, system.size()));
  RUNNEL_ASSIGN(const std::vector<Token> opening, encode(template_.opening(system), TextStart::bos));
  RUNNEL_TRY(session_->check_prefix(n_prefix(opening.size())));
  std::string prompt(system);  // all that takes memory comes before what changes the conversation
  std::string answer_end = template_.end_text();
  session_->reset(n_prefix(opening.size()));  // its size is told before anything is said
  session_->set_chat(true);
  session_->set_answer_end(std::move(answer_end));
  system_ = std::move(prompt);
  n_opening_ = 0;
  opens_user_ = true;
  exchanges_.clear();
  transcript_.clear();
  answer_ = Answer::none;
  return {};
}

// Whole exchanges after the opening, or by token: the opening, and as many sinks as the session is to have.
std::int64_t Chat::n_prefix(std::size_t n_lead) const {
  const auto n = static_cast<std::int64_t>(n_lead);
  const Settings& settings = session_->settings();
  return settings.evict == Evict::token ? std::max<std::int64_t>(n, settings.sinks) : n;
}

// A stop, or an error, comes before all of the opening is read.
std::int64_t Chat::n_opening_read() const { return std::min(n_opening_, session_->position()); }

Result<std::vector<Token>> Chat::encode(const ChatPieces& pieces, TextStart start) const {
  std::vector<TextPiece> texts;
  for (const ChatPiece& piece : pieces) texts.push_back({piece.text, piece.markup});
  std::vector<Token> tokens;
  RUNNEL_TRY(tokenizer().encode_pieces(texts, start, tokens));
  return tokens;
}

// `all` starts with `lead`, and its tokens with those of the lead, but for one that may span the border.
Result<Chat::Part> Chat::encode_after(const ChatPieces& lead, const ChatPieces& all, TextStart start) const {
  RUNNEL_ASSIGN(const std::vector<Token> alone, encode(lead, start));
  RUNNEL_ASSIGN(std::vector<Token> tokens, encode(all, start));
  const auto border = std::mismatch(alone.begin(), alone.end(), tokens.begin(), tokens.end()).first;
  return Part{std::move(tokens), static_cast<std::size_t>(border - alone.begin())};
}

// From BOS to the first answer. The system prompt's own tokens all stay: where one of them would span the
// border, what is said is put into tokens apart.
Result<Chat::Part> Chat::first_part(std::string_view system, std::string_view said,
                                    std::string_view answer) const {
  const ChatPieces lead = opens_user_ ? template_.opening(system) : template_.system(system);
  RUNNEL_ASSIGN(Part part, encode_after(lead, template_.first_turn(system, said, answer), TextStart::bos));
  RUNNEL_ASSIGN(const std::vector<Token> prompt, encode(template_.system(system), TextStart::bos));
  if (part.n_lead >= prompt.size()) return part;
  RUNNEL_ASSIGN(part.tokens, encode(lead, TextStart::bos));
  part.n_lead = part.tokens.size();
  RUNNEL_ASSIGN(const std::vector<Token> rest,
                encode(template_.user_rest(said, answer),
                       part.tokens.empty() ? TextStart::bos : tokenizer().start_after(part.tokens.back())));
  part.tokens.insert(part.tokens.end(), rest.begin(), rest.end());
  return part;
}

// What is to be read of the end of an answer that the model has not ended. Blanks in front of it are there
// where the answer ends with them: so does one of DeepSeek Coder, with a line break.
ChatPieces Chat::rest_of_answer_end() const {
  ChatPieces end = template_.answer_end();
  const std::int64_t position = session_->position();
  if (end.empty() || (!exchanges_.empty() && position == exchanges_.back().answer)) return end;
  const std::string last = spelled(tokenizer(), session_->token(position - 1));
  std::string& text = end.front().text;
  std::size_t n_there = std::min(text.find_first_not_of(" \n"), text.size());
  while (!last.ends_with(std::string_view(text).substr(0, n_there))) --n_there;
  text.erase(0, n_there);
  if (text.empty()) end.clear();
  return end;
}

// The end of the last answer, what stands between exchanges, and what is said.
Result<Chat::Part> Chat::later_part(std::string_view said, std::string_view answer) const {
  ChatPieces lead;
  if (answer_ == Answer::open) append(lead, rest_of_answer_end());
  append(lead, template_.between());
  ChatPieces all = lead;
  if (opens_user_) append(lead, template_.user_start());
  append(all, template_.turn(said, answer));
  return encode_after(lead, all, tokenizer().start_after(session_->token(session_->position() - 1)));
}

bool Chat::begins_with_prefix(const Part& part) const {
  if (session_->position() != static_cast<std::int64_t>(part.n_lead)) return false;
  for (std::size_t i = 0; i < part.n_lead; ++i)
    if (session_->token(static_cast<std::int64_t>(i)) != part.tokens[i]) return false;
  return true;
}

Result<void> Chat::read(std::span<const Token> tokens) {
  const Reading reading(is_reading_);
  return session_->feed(tokens, nullptr, nullptr);
}

// Of an answer that follows these tokens, or, where there are none, what was read.
Result<std::vector<Token>> Chat::encode_answer(std::string_view answer, std::span<const Token> before) const {
  const std::int64_t position = session_->position();
  TextStart start = TextStart::bos;
  if (!before.empty())
    start = tokenizer().start_after(before.back());
  else if (position > 0)
    start = tokenizer().start_after(session_->token(position - 1));
  return encode(template_.answer(answer), start);
}

Result<void> Chat::ask(std::string_view text, std::string_view answer) {
  RUNNEL_TRY(Tokenizer::check_size(0, text.size()));
  RUNNEL_TRY(Tokenizer::check_size(text.size(), answer.size()));
  // Also after one that came to no tokens, which no answer could follow.
  const bool is_first = answer_ == Answer::none || session_->position() == 0;
  if (is_first) opens_user_ = true;
  RUNNEL_ASSIGN(Part part, is_first ? first_part(system_, text, answer) : later_part(text, answer));
  std::vector<Token> answered;
  if (!answer.empty()) {
    RUNNEL_ASSIGN(answered, encode_answer(answer, part.tokens));
  }
  part.tokens.insert(part.tokens.end(), answered.begin(), answered.end());
  if (is_first && begins_with_prefix(part)) {  // all that was said has been taken back
    part.tokens.erase(part.tokens.begin(), part.tokens.begin() + static_cast<std::ptrdiff_t>(part.n_lead));
    part.n_lead = 0;
  } else if (is_first) {
    RUNNEL_TRY(session_->restart(n_prefix(part.n_lead)));
    n_opening_ = static_cast<std::int64_t>(part.n_lead);
  }
  const auto has_left = [&](const Exchange& e) { return e.begin < session_->held_from(); };
  exchanges_.erase(exchanges_.begin(), std::find_if_not(exchanges_.begin(), exchanges_.end(), has_left));

  const std::int64_t start = session_->position();
  exchanges_.push_back({start, start + static_cast<std::int64_t>(part.n_lead), -1, answer_});
  try {
    if (Result<void> heard = hear(part.tokens, answered.size(), text, answer); !heard) {
      RUNNEL_TRY(drop_unread());
      return heard;
    }
  } catch (...) {  // no memory
    RUNNEL_TRY(drop_unread());
    throw;
  }
  return {};
}

// Reads the last exchange's tokens, of which the last n_answer are an answer that is given.
Result<void> Chat::hear(std::span<const Token> tokens, std::size_t n_answer, std::string_view text,
                        std::string_view answer) {
  std::string said(text), answered(answer);  // take memory before others have to leave the window
  session_->mark_turn(exchanges_.back().begin);
  RUNNEL_TRY(read(tokens));
  exchanges_.back().answer = session_->position() - static_cast<std::int64_t>(n_answer);
  transcript_.add(RUNNEL_USER, std::move(said));
  if (!answered.empty()) transcript_.add(RUNNEL_MODEL, std::move(answered));
  return {};
}

Result<void> Chat::add(std::string_view text, std::string_view answer) {
  session_->begin_call();
  RUNNEL_TRY(ask(text, answer));
  answer_ = Answer::open;
  return {};
}

Result<runnel_finish> Chat::say(std::string_view text, std::int64_t n_tokens, runnel_text_fn on_text,
                                void* user) {
  RUNNEL_TRY(Session::check_count(n_tokens));
  session_->begin_call();
  RUNNEL_TRY(ask(text));
  return answer(n_tokens, on_text, user);
}

Result<runnel_finish> Chat::answer(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  answer_ = Answer::open;
  Recording recording{this, on_text, user};
  RUNNEL_ASSIGN(const runnel_finish finish, session_->generate(n_tokens, Recording::piece, &recording));
  note_answer_end();
  return finish;
}

// A text that is, or ends with, the template's end of an answer was read with it; another of the user's own
// leaves it open.
void Chat::note_answer_end() {
  if (session_->has_answer_end()) answer_ = Answer::ended;
}

Result<runnel_finish> Chat::again(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  RUNNEL_TRY(Session::check_count(n_tokens));
  session_->begin_call();
  if (exchanges_.empty()) return error(RUNNEL_BAD_ARGUMENT, "there is no answer in the window to give again");
  if (exchanges_.back().answer < 0)
    return error(
        RUNNEL_BAD_ARGUMENT,
        "the model has gone on by itself since its last answer: it can be taken back, not given again");
  // The question has to be there as far as the window let the answer see it.
  const Exchange& last = exchanges_.back();
  const std::int64_t needed = std::max(last.begin, last.answer - session_->cache().size().window);
  if (session_->held_from() > std::max(needed, session_->n_prefix()))
    return error(RUNNEL_BAD_ARGUMENT, "the question of the last answer has left the window; ask it again");
  RUNNEL_TRY(go_back(last.answer));
  transcript_.drop_answer();
  return answer(n_tokens, on_text, user);
}

Result<void> Chat::undo() {
  if (exchanges_.empty())
    return error(RUNNEL_BAD_ARGUMENT, "there is no exchange in the window to take back");
  transcript_.drop_exchange();
  return drop_last();
}

// Where what is still seen has to be read again for that, a stop leaves an empty conversation.
Result<void> Chat::go_back(std::int64_t position) {
  const Reading reading(is_reading_);
  Result<void> done = session_->rewind(position);
  if (!done) RUNNEL_TRY(forget_all());
  return done;
}

Result<void> Chat::forget_all() {
  transcript_.clear();
  return back_to_opening();
}

Result<void> Chat::back_to_opening() {
  exchanges_.clear();
  answer_ = Answer::none;
  return session_->rewind(n_opening_read());
}

// Back to the end of the exchange before, or, where that has left the window, to the opening.
Result<void> Chat::drop_last() {
  const Exchange last = exchanges_.back();
  exchanges_.pop_back();
  answer_ = last.before;
  if (answer_ != Answer::none && last.start > session_->held_from()) return go_back(last.start);
  return back_to_opening();
}

// The last exchange was not read to its end, perhaps by a stop: one more must not cost those before it.
Result<void> Chat::drop_unread() {
  const Session::Unstopped unstopped(*session_);
  return drop_last();
}

// The new prefix, and behind it the whole exchanges that are still seen and fit.
Result<void> Chat::pin(std::string_view text) {
  if (text.empty()) return error(RUNNEL_BAD_ARGUMENT, "there is no text to pin");
  RUNNEL_TRY(Tokenizer::check_size(0, text.size()));
  session_->begin_call();
  std::string system = system_prompt();
  if (!system.empty()) system += '\n';
  system += text;
  if (answer_ == Answer::none) return open_with(std::move(system));

  RUNNEL_ASSIGN(Part part, first_part(system, "a"));  // any message shows where the opening ends
  part.tokens.resize(part.n_lead);
  const std::int64_t prefix = n_prefix(part.n_lead);
  const std::int64_t room = session_->n_total() - prefix;
  const std::int64_t end = session_->position();
  const std::int64_t oldest = std::max(session_->seen_from(), end - room);
  const auto has_left = [&](const Exchange& e) { return e.begin < oldest; };
  std::vector<Exchange> kept(std::find_if_not(exchanges_.begin(), exchanges_.end(), has_left),
                             exchanges_.end());
  const std::int64_t first = kept.empty() ? end : kept.front().begin;
  for (std::int64_t at = first; at < end; ++at) part.tokens.push_back(session_->token(at));

  RUNNEL_TRY(session_->restart(prefix));
  system_ = std::move(system);
  n_opening_ = static_cast<std::int64_t>(part.n_lead);
  exchanges_ = std::move(kept);
  for (Exchange& e : exchanges_) {
    const std::int64_t moved = n_opening_ - first;
    e.start += moved;
    e.begin += moved;
    if (e.answer >= 0) e.answer += moved;
    session_->mark_turn(e.begin);
  }
  if (exchanges_.empty()) {
    answer_ = Answer::none;
  } else {
    exchanges_.front().before = Answer::none;
  }
  Result<void> fed = read(part.tokens);
  if (!fed) RUNNEL_TRY(forget_all());
  return fed;
}

// Nothing that was said is seen.
Result<void> Chat::open_with(std::string system) {
  RUNNEL_ASSIGN(const std::vector<Token> opening, encode(template_.opening(system), TextStart::bos));
  RUNNEL_TRY(session_->restart(n_prefix(opening.size())));
  system_ = std::move(system);
  n_opening_ = 0;
  opens_user_ = true;
  return {};
}

// The model plays on, whoever's turn it is: ends of turns are read like other tokens, or have been where they
// are texts, and show as line breaks. They count like other tokens too: a model that only ends its turns
// comes to the end of n_tokens as well.
Result<runnel_finish> Chat::go_on(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  RUNNEL_TRY(Session::check_count(n_tokens));
  session_->begin_call();
  if (answer_ == Answer::none) RUNNEL_TRY(begin_alone());
  for (std::int64_t n_left = n_tokens;;) {
    const std::int64_t before = session_->stats().generated_tokens;
    const Answer stood = answer_;
    Result<runnel_finish> finish = answer(n_left, on_text, user);
    if (!finish || *finish == RUNNEL_FINISH_STOPPED ||
        (*finish != RUNNEL_FINISH_END && !session_->found_answer_end())) {
      if (session_->stats().generated_tokens == before) answer_ = stood;  // no token of another came
      return finish;
    }
    if (*finish == RUNNEL_FINISH_END) {
      session_->read_end_token();
      answer_ = Answer::ended;
    }
    if (!exchanges_.empty()) exchanges_.back().answer = -1;  // from here on the model answers itself
    Recording recording{this, on_text, user};
    const int refused = Recording::piece(&recording, "\n", 1, session_->token(session_->position() - 1));
    if (refused || session_->is_stopping()) return RUNNEL_FINISH_STOPPED;
    if (n_tokens < 0) continue;
    n_left -= session_->stats().generated_tokens - before;
    if (n_left == 0) return RUNNEL_FINISH_LENGTH;
  }
}

// Reads what comes before the first message, from where the model goes on without one.
Result<void> Chat::begin_alone() {
  RUNNEL_ASSIGN(const std::vector<Token> tokens, encode(template_.system(system_), TextStart::bos));
  if (tokens.empty())
    return error(RUNNEL_BAD_ARGUMENT, "this model has no token that starts a text: say something first");
  RUNNEL_ASSIGN(const std::vector<Token> opening, encode(template_.opening(system_), TextStart::bos));
  RUNNEL_TRY(session_->restart(std::max<std::int64_t>(n_prefix(tokens.size()), session_->settings().sinks)));
  n_opening_ = static_cast<std::int64_t>(tokens.size());
  opens_user_ = tokens == opening;
  return read(tokens);
}

}  // namespace runnel
