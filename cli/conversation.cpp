#include "conversation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "console.h"
#include "errors.h"
#include "interrupt.h"
#include "json.h"
#include "output_file.h"
#include "reading_bar.h"
#include "session_notes.h"
#include "settings.h"

namespace cli {
namespace {

// Of a conversation that is loaded.
constexpr std::size_t most_shown = 2000;  // bytes
constexpr int most_lines = 10;

constexpr std::string_view session_magic = "runnelS";  // that a session's file begins with

// A call that may read for long: with a bar, and Ctrl-C stops it.
class Reading {
 public:
  explicit Reading(runnel_session* session) {
    clear_interrupt();
    stop_on_interrupt_.emplace(session);
    bar_.emplace(session);
  }

 private:
  std::optional<StopSession> stop_on_interrupt_;
  std::optional<ReadingBar> bar_;
};

// The last lines, and not too much of them.
std::string last_part(const std::string& text) {
  std::size_t begin = text.size();
  for (int n = 0; n < most_lines && begin > 0; ++n) {
    const std::size_t newline = begin < 2 ? std::string::npos : text.rfind('\n', begin - 2);
    begin = newline == std::string::npos ? 0 : newline + 1;
  }
  if (text.size() - begin <= most_shown) return text.substr(begin);
  begin = text.size() - most_shown;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return "..." + text.substr(begin);
}

// A place for a session that is not saved yet, as mktemp makes one.
bool is_empty_file(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown) && std::filesystem::file_size(path, unknown) == 0;
}

// A file that is there, holds something and does not begin as a session does would be lost.
void refuse_other_content(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;  // saving tells what is wrong with it
  if (is_empty_file(path)) return;
  std::string begin(session_magic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (!file.is_open() || file.bad())
    throw Failure(path + ": cannot tell whether this is a session file of runnel: " + std::strerror(errno));
  if (begin != session_magic) throw Failure(path + ": this is no session file of runnel; name another file");
}

}  // namespace

Conversation::Conversation(ConversationOptions options, const runnel_config* config)
    : options_(std::move(options)),
      model_(open_model(options_.model_path, config)),
      session_(open_session(model_.get(), config)),
      chat_(open_chat(session_.get(), config)),
      transcript_(options_.transcript_path) {
  note_untrained_window(model_.get(), session_.get());
  if (!options_.system.empty())
    check_settings(runnel_chat_system(chat_.get(), options_.system.data(), options_.system.size()));
}

// says: the call reads a message first.
runnel_finish Conversation::stream(const Call& call, bool says) {
  const Reading reading(session_.get());
  const std::int64_t reread_before = stat(RUNNEL_STAT_REREAD_TOKENS);
  bool line_open = false, is_read = !says;
  const auto on_text = [&](std::string_view text) {
    if (!is_read) note_unseen("message", stat(RUNNEL_STAT_UNSEEN));
    is_read = true;
    transcript_.add_answer(text);
    if (options_.json)
      answer_ += text;
    else
      write_model_text(text);
    if (!text.empty()) line_open = !options_.json && text.back() != '\n';
    return !interrupted();
  };
  const auto end_line = [&line_open] {
    if (line_open) write_out("\n");
  };
  try {
    const runnel_finish finish = generating(on_text, call);
    end_line();
    transcript_.end_turn();
    if (!is_read && finish != RUNNEL_FINISH_STOPPED) note_unseen("message", stat(RUNNEL_STAT_UNSEEN));
    note_reread(model_.get(), stat(RUNNEL_STAT_REREAD_TOKENS) - reread_before);
    return interrupted() ? RUNNEL_FINISH_STOPPED : finish;
  } catch (const Failure& failure) {
    end_line();
    transcript_.remark(failure.what());
    throw;
  }
}

runnel_finish Conversation::answer(const Call& call, bool says) {
  generated_before_ = generated();
  answer_.clear();
  runnel_finish finish = stream(call, says);
  if (options_.for_ever && finish != RUNNEL_FINISH_STOPPED) finish = go_on();
  if (options_.show_status) write_note(status());
  return finish;
}

runnel_finish Conversation::say(std::string_view text) {
  transcript_.add_user(text);
  bool is_read = true;
  const auto call = [&](runnel_text_fn on_text, void* user, runnel_finish* finish) {
    const runnel_status status =
        runnel_chat_say(chat_.get(), text.data(), text.size(), options_.n_tokens, on_text, user, finish);
    is_read = status != RUNNEL_STOPPED;
    return status;
  };
  const runnel_finish finish = answer(call, true);
  if (!is_read) {
    constexpr const char* note = "stopped before the message was read: it is not part of the conversation";
    transcript_.remark(note);
    write_note(note);
  }
  if (options_.json) write_report(text, finish);
  return finish;
}

void Conversation::write_report(std::string_view message, runnel_finish finish) const {
  const Generated last = last_generated();
  write_json_line({{"message", message},
                   {"answer", answer_},
                   {"finish", finish_name(finish)},
                   {"seed", std::stoull(setting("seed"))},
                   {"unseen_tokens", stat(RUNNEL_STAT_UNSEEN)},
                   {"generated_tokens", last.tokens},
                   {"generated_us", last.us},
                   {"generated_tokens_per_s", rate(last.tokens, last.us)},
                   {"tokens_so_far", stat(RUNNEL_STAT_POSITION)},
                   {"cache_used", stat(RUNNEL_STAT_CACHE_USED)},
                   {"cache_size", stat(RUNNEL_STAT_CACHE_SIZE)}});
}

runnel_finish Conversation::again() {
  transcript_.remark("another answer in place of the last");
  bool is_empty = false;
  const auto call = [&](runnel_text_fn on_text, void* user, runnel_finish* finish) {
    const runnel_status status = runnel_chat_again(chat_.get(), options_.n_tokens, on_text, user, finish);
    is_empty = status == RUNNEL_STOPPED;
    return status;
  };
  const runnel_finish finish = answer(call, false);
  if (is_empty) fail_empty();
  return finish;
}

// What is seen had to be read again (see runnel_session_rewind), and was not to the end.
void Conversation::fail_empty() {
  transcript_.remark("the conversation starts over");
  throw Failure("stopped before all was read again: the conversation is empty");
}

runnel_finish Conversation::go_on() {
  return stream([&](runnel_text_fn on_text, void* user, runnel_finish* finish) {
    return runnel_chat_continue(chat_.get(), -1, on_text, user, finish);
  });
}

void Conversation::start(std::string_view system) {
  check(runnel_chat_system(chat_.get(), system.data(), system.size()));
  options_.system = system;
  transcript_.remark("the conversation starts over; system prompt: " + options_.system);
}

void Conversation::undo() {
  const Reading reading(session_.get());
  const std::int64_t reread_before = stat(RUNNEL_STAT_REREAD_TOKENS);
  const runnel_status status = runnel_chat_undo(chat_.get());
  if (status == RUNNEL_STOPPED) fail_empty();
  check(status);
  note_reread(model_.get(), stat(RUNNEL_STAT_REREAD_TOKENS) - reread_before);
  transcript_.remark("the last exchange is taken back");
}

std::int64_t Conversation::pin(std::string_view text) {
  const Reading reading(session_.get());
  const std::int64_t before = stat(RUNNEL_STAT_FED_TOKENS);
  const runnel_status status = runnel_chat_pin(chat_.get(), text.data(), text.size());
  options_.system = runnel_chat_system_prompt(chat_.get());  // the new one too when reading was stopped
  if (status == RUNNEL_STOPPED) {
    transcript_.remark("the conversation starts over; pinned: " + std::string(text));
    throw Failure("stopped before all was read again: the text is pinned, and the conversation is empty");
  }
  check(status);
  transcript_.remark("pinned: " + std::string(text));
  return std::max<std::int64_t>(0, stat(RUNNEL_STAT_FED_TOKENS) - before);
}

void Conversation::save(const std::string& path) {
  const std::string& to = path.empty() ? options_.session_path : path;
  if (to.empty()) throw Failure("name the file to save to, as in /save evening.session");
  refuse_same_file(to, options_.model_path, "model");
  refuse_same_file(to, options_.transcript_path, "transcript");
  refuse_other_content(to);
  check(runnel_chat_save(chat_.get(), to.c_str()));
}

void Conversation::load(const std::string& path) {
  const std::string& from = path.empty() ? options_.session_path : path;
  if (from.empty()) throw Failure("name the file to load, as in /load evening.session");
  check(runnel_chat_load(chat_.get(), from.c_str()));
  options_.system = runnel_chat_system_prompt(chat_.get());
  transcript_.remark("loaded " + from);
}

void Conversation::open_session_file() {
  const std::string wanted = options_.system;
  std::error_code unknown;  // saving tells the reason
  const bool is_there = std::filesystem::exists(options_.session_path, unknown);
  if (!is_there || is_empty_file(options_.session_path)) return save("");
  load("");
  if (!wanted.empty() && wanted != options_.system)
    write_note("--system does not count: the session has its own system prompt (/system changes it)");
}

void Conversation::set(const std::string& name, const std::string& value) {
  check(runnel_session_set(session_.get(), name.c_str(), value.c_str()));
  if (name == "threads") note_threads(std::stoll(setting(name)));
}

std::string Conversation::setting(const std::string& name) const {
  const char* value = runnel_session_get(session_.get(), name.c_str());
  return value ? value : "";
}

std::string Conversation::choice_for(const std::string& name) const {
  const std::string value = setting(name);
  if (name == "isa" && value.empty()) return runnel_isa();
  if (name == "template" && value.empty()) return runnel_chat_form(chat_.get());
  if (name == "threads" && value == "0") return std::to_string(runnel_default_threads());
  if (name == "window" && value == "0")
    return std::to_string(stat(RUNNEL_STAT_CACHE_SIZE) - stat(RUNNEL_STAT_PREFIX));
  return "";
}

std::string Conversation::headline() const {
  const std::int64_t n_prefix = stat(RUNNEL_STAT_PREFIX);
  return std::string("runnel ") + runnel_version() + " · " + runnel_model_architecture(model_.get()) + ", " +
         with_commas(runnel_model_fact(model_.get(), RUNNEL_N_PARAMETERS)) + " parameters · chat form " +
         runnel_chat_form(chat_.get()) + " · cache of " + counted(stat(RUNNEL_STAT_CACHE_SIZE), "token") +
         ", " + with_commas(n_prefix) + " for ever · " + isa_name(setting("isa")) +
         (runnel_model_fact(model_.get(), RUNNEL_CAN_STREAM) != 0
              ? ""
              : "\nThis model has learned positions: when its window is full, half of it is read again.");
}

Conversation::Generated Conversation::generated() const {
  return {stat(RUNNEL_STAT_GENERATED_TOKENS), stat(RUNNEL_STAT_GENERATED_US)};
}

Conversation::Generated Conversation::last_generated() const {
  const Generated all = generated();
  return {all.tokens - generated_before_.tokens, all.us - generated_before_.us};
}

std::string Conversation::status() const {
  const Generated last = last_generated();
  return "[" + counted(stat(RUNNEL_STAT_POSITION), "token") + " so far · cache " +
         with_commas(stat(RUNNEL_STAT_CACHE_USED)) + "/" + with_commas(stat(RUNNEL_STAT_CACHE_SIZE)) +
         (last.tokens > 0 ? " · " + rate_text(rate(last.tokens, last.us)) + " tokens/s]" : "]");
}

std::string Conversation::statistics() const {
  std::string text;
  text += "tokens so far   " + with_commas(stat(RUNNEL_STAT_POSITION)) + "\n";
  text += "cache           " + with_commas(stat(RUNNEL_STAT_CACHE_USED)) + " of " +
          counted(stat(RUNNEL_STAT_CACHE_SIZE), "token") + ", " + bytes_text(stat(RUNNEL_STAT_CACHE_BYTES)) +
          "\n";
  text += "kept for ever   " + counted(stat(RUNNEL_STAT_PREFIX), "token") + "\n";
  text += "exchanges seen  " + with_commas(stat(RUNNEL_STAT_TURNS)) + "\n";
  text += "left the window " + counted(stat(RUNNEL_STAT_EVICTED), "token") + "\n";
  if (stat(RUNNEL_STAT_REREAD_TOKENS) > 0) {
    text += "read again      " + counted(stat(RUNNEL_STAT_REREAD_TOKENS), "token") + "\n";
  }
  text += "read            " + speed_text(session_.get(), RUNNEL_STAT_FED_TOKENS, RUNNEL_STAT_FED_US) + "\n";
  text += "generated       " +
          speed_text(session_.get(), RUNNEL_STAT_GENERATED_TOKENS, RUNNEL_STAT_GENERATED_US) + "\n";
  return text + "scratch         " + bytes_text(stat(RUNNEL_STAT_SCRATCH_BYTES)) + "\n";
}

std::string Conversation::last_lines() const {
  std::string text;
  runnel_speaker speaker = RUNNEL_USER;
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; text.size() < most_shown; ++i) {
    const char* message = runnel_chat_message(chat_.get(), i, &speaker, &n_bytes);
    if (!message) break;
    text.insert(0, marked_message(speaker == RUNNEL_USER, {message, n_bytes}));
  }
  return last_part(text);
}

}  // namespace cli
