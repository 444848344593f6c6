// runnel chat: a conversation, on a terminal or line by line through pipes.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "conversation.h"
#include "errors.h"
#include "interrupt.h"
#include "line_editor.h"
#include "line_input.h"
#include "model_path.h"
#include "names.h"
#include "options.h"
#include "output_file.h"
#include "settings.h"
#include "typed_ahead.h"

namespace cli {
namespace {

constexpr const char* examples =
    R"(  runnel chat                                     the bundled model
  runnel chat model.gguf --system "Be brief." --temp 0.5
  runnel chat model.gguf --sinks 4 --window 8192  what it sees: the first 4 and the last 8192 tokens
  runnel chat --window 1024 --evict token         the oldest token leaves, not the oldest exchange
  runnel chat --forever                           after the answer it goes on by itself until Ctrl-C
  runnel chat --session evening.session           goes on where it was left; kept when one leaves
  runnel chat --transcript talk.txt               what is said is also appended to a text file
  printf 'Hello!\nAnd you?\n' | runnel chat       each line is a turn; only answers on standard output
  runnel chat --json < questions.txt              for each of them one line that holds a JSON object

On a terminal Ctrl-C stops an answer, or drops what was typed; twice where nothing was typed it leaves, as
Ctrl-D does. /help lists the commands, which are for a terminal only. A line that ends in \ goes on in the
next, there and through pipes.
)";

struct ChatOptions {
  ConversationOptions conversation;
  SettingOptions settings;
  bool quiet = false;
};

// ---- commands on the terminal ----

struct ChatCommand {
  const char* name;
  const char* argument;
  const char* help;
  // False leaves the chat.
  bool (*run)(Conversation& chat, const std::string& argument);
};

bool show_help(Conversation&, const std::string&);

void show_last_lines(const Conversation& chat) {
  std::string lines = without_controls(chat.last_lines());
  if (!lines.empty()) lines.pop_back();
  write_note(lines.empty() ? "nothing was said yet" : "the last that was said:\n" + lines);
}

constexpr const char* blanks = " \t\n";

// The first word, and what follows it and the blanks behind it.
std::pair<std::string, std::string> split_first_word(const std::string& text) {
  const std::size_t blank = text.find_first_of(blanks);
  const std::size_t rest = text.find_first_not_of(blanks, blank);
  return {text.substr(0, blank), rest == std::string::npos ? "" : text.substr(rest)};
}

// As a shell would have it: "a name with blanks", ~/name.
std::string file_name(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const char* home = std::getenv("HOME");
  if (home && *home && text.rfind("~/", 0) == 0) text.replace(0, 1, home);
  return text;
}

// "threads = 0 (2)"
std::string setting_line(const Conversation& chat, const std::string& name) {
  const std::string value = chat.setting(name), choice = chat.choice_for(name);
  return name + " = " + value + (value.empty() || choice.empty() ? "" : " ") +
         (choice.empty() ? "" : "(" + choice + ")");
}

bool set(Conversation& chat, const std::string& argument) {
  const auto [word, value] = split_first_word(argument);
  const std::string name = setting_name(word);
  std::vector<std::string> known = names_of(runnel_setting_name);
  std::erase(known, "vocab_only");
  if (!name.empty()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Failure("there is no setting " + name + "; /set lists them all");
    known = {name};
  }
  if (!value.empty()) chat.set(name, value == "\"\"" ? "" : value);
  std::string lines;
  for (const std::string& one : known) lines += (lines.empty() ? "" : "\n") + setting_line(chat, one);
  write_note(lines);
  return true;
}

constexpr ChatCommand commands[] = {
    {"/help", "", "this list", show_help},
    {"/reset", "", "forget the conversation; the system prompt stays",
     [](Conversation& chat, const std::string&) {
       chat.reset();
       write_note("the conversation starts over");
       return true;
     }},
    {"/system", "TEXT", "start over with this system prompt",
     [](Conversation& chat, const std::string& text) {
       chat.start(text);
       write_note(text.empty() ? "the conversation starts over, without a system prompt"
                               : "the conversation starts over with this system prompt");
       return true;
     }},
    {"/pin", "TEXT", "add TEXT to the system prompt, which is never forgotten; the conversation goes on",
     [](Conversation& chat, const std::string& text) {
       const std::int64_t n_tokens = chat.pin(text);
       write_note("pinned; " + counted(n_tokens, "token") + " read again");
       return true;
     }},
    {"/undo", "", "take back the last message and its answer",
     [](Conversation& chat, const std::string&) {
       chat.undo();
       write_note("the last exchange is taken back");
       return true;
     }},
    {"/save", "FILE", "write the session to a file: /load, or chat --session FILE, goes on from there",
     [](Conversation& chat, const std::string& argument) {
       const std::string path = file_name(argument);
       chat.save(path);
       write_note("saved to " + (path.empty() ? chat.session_path() : path));
       return true;
     }},
    {"/load", "FILE", "go on with a saved session in place of this one",
     [](Conversation& chat, const std::string& argument) {
       chat.load(file_name(argument));
       show_last_lines(chat);
       return true;
     }},
    {"/stats", "", "tokens, cache and speed",
     [](Conversation& chat, const std::string&) {
       std::string text = chat.statistics();
       text.pop_back();
       write_note(text);
       return true;
     }},
    {"/set", "[NAME [VALUE]]", "show or change settings, as in /set temp 0.5; \"\" is an empty value", set},
    {"/regen", "", "drop the last answer and give another",
     [](Conversation& chat, const std::string&) {
       chat.again();
       return true;
     }},
    {"/quit", "", "leave, as Ctrl-D does", [](Conversation&, const std::string&) { return false; }},
};

bool show_help(Conversation&, const std::string&) {
  std::string text;
  for (const ChatCommand& command : commands) {
    text += left_aligned(std::string(command.name) + " " + command.argument + " ", 24) + command.help + "\n";
  }
  text +=
      "A line that ends in \\ goes on in the next. Ctrl-C stops an answer or drops a line;\n"
      "Ctrl-C twice, or Ctrl-D, leaves.\n"
      "A blank before the / makes a message of a line that looks like a command.";
  write_note(text);
  return true;
}

// A / and letters up to a blank or the end. Not so "// a comment" or "/etc/passwd, what is it?".
bool is_command(const std::string& line) {
  if (line.empty() || line[0] != '/') return false;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const std::string name = split_first_word(line).first.substr(1);
  return !name.empty() && std::all_of(name.begin(), name.end(), is_letter);
}

bool run_command(Conversation& chat, const std::string& line) {
  auto [name, argument] = split_first_word(line);
  argument.erase(argument.find_last_not_of(blanks) + 1);
  for (const ChatCommand& command : commands) {
    if (name != command.name) continue;
    if (!argument.empty() && *command.argument == '\0')
      throw Failure(name + " takes nothing; a blank before it makes it a message");
    return command.run(chat, argument);
  }
  throw Failure("there is no command " + name + "; /help lists them, a blank before it makes it a message");
}

// ---- the two ways to talk ----

// Saves the session, if it is one that is kept, and gives the exit code; none when one had better stay: what
// cannot be kept is worth a second thought.
std::optional<int> leave(Conversation& chat, bool& warned) {
  if (!chat.has_session()) return exit_ok;
  try {
    chat.save("");
    return asked_to_end() ? exit_code_of_interrupt() : exit_ok;
  } catch (const Failure& failure) {
    if (warned) return exit_failure;
    write_note(std::string(failure.what()) +
               "\nThe session is not saved. /save FILE writes it elsewhere; leaving again loses it.");
    warned = true;
    return std::nullopt;
  }
}

int talk_on_terminal(Conversation& chat, bool for_ever) {
  std::vector<std::string> names;
  for (const ChatCommand& command : commands) names.emplace_back(command.name);
  const Style style = error_style();
  const auto unseen = [](const char* sequence) { return "\1" + std::string(sequence) + "\1"; };
  // libedit prints a sequence with the character after it, so none may be the last of a prompt.
  LineEditor editor(*style.bold ? unseen(style.bold) + ">" + unseen(style.plain) + " " : "> ", names);
  write_note(chat.headline() + "\nType a message. /help lists the commands, Ctrl-D leaves.");
  if (chat.has_session()) show_last_lines(chat);

  const NoteInterrupt only_noted;  // a second Ctrl-C in a hurry does not end the program
  bool asked_before = false;       // by a Ctrl-C at the prompt, just before: the next one leaves
  bool warned = false;             // that the session is not saved
  for (;;) {
    std::string line;
    const LineEditor::Event event = editor.read(line);
    const bool leaves = asked_to_end() || (asked_before && line.empty());
    if (event == LineEditor::Event::interrupted && !leaves) {
      write_note("Ctrl-C again, or Ctrl-D, leaves");
      asked_before = true;
      continue;
    }
    if (event == LineEditor::Event::line) clear_interrupt();
    const TypedAhead typed_ahead(editor.typed_ahead());
    if (event != LineEditor::Event::line) {
      if (const auto code = leave(chat, warned)) return *code;
      continue;
    }
    try {
      if (is_command(line)) {
        const bool stays = run_command(chat, line);
        if (const auto code = stays ? std::nullopt : leave(chat, warned)) return *code;
      } else if (line.find_first_not_of(blanks) != std::string::npos) {
        chat.say(line);
      } else if (for_ever) {
        chat.go_on();
      }
    } catch (const Failure& failure) {
      write_note(failure.what());
    } catch (const UsageError& error) {
      write_note(error.what());
    }
    asked_before = false;
  }
}

int talk_through_pipes(Conversation& chat) {
  LineInput input;
  std::string line;
  for (;;) {
    const LineInput::Event event = input.read_message(line);
    if (event == LineInput::Event::end) return exit_ok;
    if (event == LineInput::Event::interrupted) return exit_code_of_interrupt();
    if (line.find_first_not_of(blanks) == std::string::npos) continue;
    if (chat.say(line) == RUNNEL_FINISH_STOPPED) return exit_code_of_interrupt();
  }
}

// A session is kept however the talk ends, short of a signal that cannot wait.
int talk_and_save(Conversation& chat, bool for_ever, bool on_terminal) {
  chat.open_session_file();
  const FinishFirst finish_first;
  try {
    if (on_terminal) return talk_on_terminal(chat, for_ever);  // saves when one leaves
    const int code = talk_through_pipes(chat);
    chat.save("");
    return code;
  } catch (...) {
    chat.save("");
    throw;
  }
}

int run_chat(ChatOptions options) {
  if (options.conversation.json && options.conversation.for_ever)
    throw UsageError("--json does not go with --forever: what has no end is no object");
  const Config config = options.settings.config();
  options.conversation.model_path = model_or_bundled(options.conversation.model_path);
  const ConversationOptions& files = options.conversation;
  refuse_same_file(files.transcript_path, files.model_path, "model");
  refuse_same_file(files.session_path, files.model_path, "model");
  refuse_same_file(files.transcript_path, files.session_path, "session");
  refuse_standard_output(files.transcript_path);
  refuse_standard_output(files.session_path);
  for (const std::string& written : {files.transcript_path, files.session_path, std::string("/dev/stdout")})
    refuse_standard_input(written);
  options.conversation.show_status = error_is_terminal() && !options.quiet;
  Conversation chat(options.conversation, config.get());
  const bool for_ever = options.conversation.for_ever;
  const bool on_terminal = input_is_terminal() && output_is_terminal() && !options.conversation.json;
  // There is no prompt in the output.
  if (input_is_terminal() && !on_terminal) write_note("Type a message a line; Ctrl-D ends.");
  if (chat.has_session()) return talk_and_save(chat, for_ever, on_terminal);
  return on_terminal ? talk_on_terminal(chat, for_ever) : talk_through_pipes(chat);
}

std::string known_forms() {
  return wrapped("Forms for --template: " + joined(names_of(runnel_chat_form_name)) + ".");
}

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  const auto options = std::make_shared<ChatOptions>();
  ConversationOptions& conversation = options->conversation;
  CLI::App& command = add_command(app, "chat", "Talk to a model", examples + known_forms());
  add_optional_model(command, conversation.model_path);
  add_text(command, "-s,--system", conversation.system, "TEXT",
           "what the model is told before the conversation");
  add_count(command, "-n,--n-tokens", conversation.n_tokens, -1, most_tokens,
            "most tokens of an answer; -1: until the model ends it; default -1");
  add_flag(command, "--forever", conversation.for_ever,
           "after an answer, which alone -n bounds, the model goes on by itself until Ctrl-C; on a terminal "
           "an empty line has it go on again; with --greedy or a low --temp it may fall into a loop, which "
           "--frequency-penalty 0.2 --penalty-window 512 prevents");
  add_written_file(
      command, "--session", conversation.session_path,
      "a file the conversation goes on from, and is kept in when one leaves (Ctrl-D, Ctrl-C, the end "
      "of the input, a closed window); made where there is none, or an empty one");
  add_written_file(command, "--transcript", conversation.transcript_path,
                   "a text file to append what is said to");
  add_flag(command, "-q,--quiet", options->quiet, "no status line after an answer");
  add_flag(
      command, "--json", conversation.json,
      "for each message one JSON object in a line, when it is answered: message, answer, finish, counts");
  options->settings.add_to(command, SettingOptions::Which::chat);
  on_command(command, run, [options] { return run_chat(*options); });
}

}  // namespace cli
