// runnel: the command line of the library. Parses, runs one command, turns what goes wrong into one line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "errors.h"
#include "interrupt.h"
#include "nearest.h"

namespace {

constexpr const char* examples =
    R"(Examples:
  runnel chat                                        talk to the bundled model
  runnel chat model.gguf --system "Answer briefly."  talk to another
  runnel generate model.gguf -p "Once upon a time" -n 100
  runnel info model.gguf                             what a file holds and what it needs

"runnel COMMAND --help" tells more. Results go to standard output, everything else to standard error.
Exit codes: 0 done, 1 it could not be done, 2 the command line is wrong (no such option, a value out of
range, options that do not go together or not with the model), 130 stopped by Ctrl-C (a chat on a
terminal that one leaves so: 0).)";

// One line for what CLI11 found wrong, and where to look.
int report_usage(const CLI::App& app, const std::string& message) {
  std::string help = "runnel";
  for (const CLI::App* command : app.get_subcommands()) help += " " + command->get_name();
  cli::write_error(message + " (see " + help + " --help)");
  return cli::exit_usage;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// For what was typed in place of one of the names.
std::string meant(const std::string& word, const std::vector<std::string>& names) {
  const std::string name = cli::nearest(word, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

// The first argument that nothing takes: one before the command, else one of those behind it. CLI11 lists
// them with the values among them.
std::string unexpected(const CLI::App& app) {
  const bool has_command = !app.get_subcommands().empty();
  const bool comes_before = app.remaining_size() > 0;
  const std::vector<std::string> arguments = app.remaining(!comes_before);
  const auto option = std::find_if(arguments.begin(), arguments.end(),
                                   [](const std::string& a) { return a.rfind('-', 0) == 0; });
  if (!has_command) {
    for (const std::string& word : arguments)
      if (const std::string hint = meant(word, command_names(app)); !hint.empty())
        return "there is no command " + word + hint;
  }
  if (option != arguments.end()) {
    const std::string name = option->substr(0, option->find('='));
    if (has_command && comes_before) return "there is no option " + name + " before the command";
    return "there is no option " + name +
           meant(name, option_names(has_command ? *app.get_subcommands()[0] : app));
  }
  if (!has_command) return "there is no command " + arguments.front();
  return "nothing takes the argument \"" + arguments.front() + "\"";
}

// CLI11's message about two options in our words: "--svg goes only with --compare" for "--svg requires
// --compare".
std::string reworded(const CLI::ParseError& error, std::string_view theirs, std::string_view ours) {
  std::string message = error.what();
  return message.replace(message.find(theirs), theirs.size(), ours);
}

// An option without its value, a flag with one: "--seed: 1 required N missing" in CLI11's words, "json was
// given a disallowed flag override".
std::string misused(const CLI::ArgumentMismatch& error) {
  const std::string message = error.what();
  const std::string name = message.substr(0, message.find_first_of(": "));
  if (message.find("flag override") != std::string::npos) return "--" + name + " takes no value";
  return name + " needs a value";
}

int run(int argc, char** argv) {
  CLI::App app("runnel: language models on the CPU, as a stream that never ends", "runnel");
  cli::set_help_style(app);
  // Of an option that is given twice the last one counts, so that what a script gives can be changed.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", std::string("runnel ") + runnel_version());
  app.footer(examples);
  app.require_subcommand(0, 1);

  cli::Run command;
  cli::add_chat(app, command);
  cli::add_generate(app, command);
  cli::add_info(app, command);
  cli::add_tokenize(app, command);
  cli::add_perplexity(app, command);
  cli::add_quantize(app, command);
  cli::add_inspect(app, command);
  cli::add_logits(app, command);
  cli::add_bench(app, command);
  cli::add_synth(app, command);

  try {
    cli::parse(app, argc, argv);
    if (command) return command();
    cli::write_out(app.help());
    return cli::exit_ok;
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(request, text, text);
    cli::write_out(text.str());
    return code;
  } catch (const CLI::ExtrasError&) {
    return report_usage(app, unexpected(app));
  } catch (const CLI::ExcludesError& error) {
    return report_usage(app, reworded(error, " excludes ", " and ") + " do not go together");
  } catch (const CLI::RequiresError& error) {
    return report_usage(app, reworded(error, " requires ", " goes only with "));
  } catch (const CLI::ArgumentMismatch& error) {
    return report_usage(app, misused(error));
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error.what());
  } catch (const cli::UsageError& error) {
    return report_usage(app, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::open_standard_files();
  cli::watch_signals();
  cli::set_locale();
  try {
    return run(argc, argv);
  } catch (const cli::ReaderGone&) {
    return cli::exit_ok;
  } catch (const cli::Interrupted&) {
    return cli::exit_code_of_interrupt();
  } catch (const std::bad_alloc&) {
    cli::write_error("out of memory");
  } catch (const std::exception& error) {
    cli::write_error(error.what());
  }
  return cli::exit_failure;
}
