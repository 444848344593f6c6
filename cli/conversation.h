// A chat as the program holds it: the library's handles, and answers streamed to standard output.
#pragma once
#include <string>
#include <string_view>

#include "library.h"
#include "transcript_file.h"

namespace cli {

struct ConversationOptions {
  std::string model_path;
  std::string system;           // empty: the form's default
  std::int64_t n_tokens = -1;   // of an answer; -1: until the model ends it
  bool for_ever = false;        // go on after the answer, until Ctrl-C
  bool show_status = false;     // a line on standard error after each answer
  bool json = false;            // each message and its answer as an object in a line, in place of the text
  std::string session_path;     // where the session comes back from and is kept; empty: nowhere
  std::string transcript_path;  // what is said is appended to it; empty: to nothing
};

class Conversation {
 public:
  Conversation(ConversationOptions options, const runnel_config* config);

  // Each prints text as it comes and ends its line. The result is RUNNEL_FINISH_STOPPED after Ctrl-C; in a
  // chat that goes on for ever nothing else ends it.
  runnel_finish say(std::string_view text);
  runnel_finish again();
  runnel_finish go_on();

  void reset() { start(options_.system); }
  void start(std::string_view system);  // over, with this system prompt
  // Takes the last exchange back. Where Ctrl-C stops what has to be read again for it, here and in again(),
  // the conversation is empty: Failure says so.
  void undo();
  // Adds a line to the system prompt and reads the conversation again; how many tokens that took. Where
  // Ctrl-C stops it, the line stays and the conversation does not: Failure says so.
  std::int64_t pin(std::string_view text);
  void set(const std::string& name, const std::string& value);

  // An empty path: the session's own, if it has one. UsageError where that is the model or the transcript,
  // Failure where it holds something that is no session.
  void save(const std::string& path);
  void load(const std::string& path);
  bool has_session() const { return !options_.session_path.empty(); }
  const std::string& session_path() const { return options_.session_path; }
  // Loads the session's file, or makes it where there is none or an empty one, so that one finds out now what
  // keeps it from being written.
  void open_session_file();

  std::string setting(const std::string& name) const;
  // What is used where the setting leaves that to runnel; empty where it tells itself.
  std::string choice_for(const std::string& name) const;
  std::string headline() const;    // model and session in one line
  std::string status() const;      // of the last answer, in one line
  std::string statistics() const;  // everything, one figure a line
  std::string last_lines() const;  // of what was said, each with a newline; for people

 private:
  struct Generated {
    std::int64_t tokens, us;
  };
  using Call = std::function<runnel_status(runnel_text_fn, void* user, runnel_finish* finish)>;
  runnel_finish stream(const Call& call, bool says = false);
  runnel_finish answer(const Call& call, bool says);
  [[noreturn]] void fail_empty();
  void write_report(std::string_view message, runnel_finish finish) const;
  std::int64_t stat(runnel_stat which) const { return runnel_session_stat(session_.get(), which); }
  Generated generated() const;  // in all
  Generated last_generated() const;

  ConversationOptions options_;
  Model model_;
  Session session_;
  Chat chat_;
  TranscriptFile transcript_;
  Generated generated_before_{};  // the last answer
  std::string answer_;            // for its report
};

}  // namespace cli
