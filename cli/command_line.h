// The command line as the commands see it: CLI11 behind plain functions, since a file that includes CLI11
// takes seconds to compile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

// The text with line breaks for blanks, so that no line is longer than this unless a word is.
constexpr std::size_t line_width = 100;
std::string wrapped(const std::string& text, std::size_t width = line_width);

// Wraps long descriptions; for the app, before its subcommands are added.
void set_help_style(CLI::App& app);

// A subcommand with its description and, at the end of its help, examples.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples);

// What a command does, once all is parsed; it returns the exit code.
using Run = std::function<int()>;

// Parses what the program was started with. "--option=" has the option's value empty: CLI11 would take the
// next argument for it.
void parse(CLI::App& app, int argc, char** argv);

// Parsing sets `run` to `action` when the command is on the command line.
void on_command(CLI::App& command, Run& run, Run action);

// ---- options ----
//
// `names` are "-n,--n-tokens", or "MODEL" for an argument by position; `type` is what the help calls the
// value.

CLI::Option* add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help);
CLI::Option* add_text(CLI::App& command, const std::string& names, std::string& value, const char* type,
                      const std::string& help);
// A name that is not empty: an empty one is a variable that a script forgot to set.
CLI::Option* add_file(CLI::App& command, const std::string& names, std::string& value, const char* type,
                      const std::string& help);
// One that is written, as a file of its own; and one that may as well be a pipe or a device.
CLI::Option* add_written_file(CLI::App& command, const std::string& names, std::string& value,
                              const std::string& help);
CLI::Option* add_output(CLI::App& command, const std::string& names, std::string& value,
                        const std::string& help);
// One of a folder that files are written into.
CLI::Option* add_folder(CLI::App& command, const std::string& names, std::string& value,
                        const std::string& help);
CLI::Option* add_choice(CLI::App& command, const std::string& names, std::string& value, const char* type,
                        const std::vector<std::string>& choices, const std::string& help);

// Numbers. Least and most may be given.
CLI::Option* add_count(CLI::App& command, const std::string& names, std::int64_t& value, std::int64_t least,
                       std::int64_t most, const std::string& help);
// Of 64 bits.
CLI::Option* add_unsigned(CLI::App& command, const std::string& names, std::uint64_t& value,
                          const std::string& help);
CLI::Option* add_number(CLI::App& command, const std::string& names, double& value, double least, double most,
                        const std::string& help);
// "1,2,4"
CLI::Option* add_counts(CLI::App& command, const std::string& names, std::vector<std::int32_t>& values,
                        std::int32_t least, std::int32_t most, const std::string& help);

// Options whose value is handed on as text.
using Store = std::function<void(const std::string&)>;
CLI::Option* add_value(CLI::App& command, const std::string& names, Store store, const std::string& help);
// A list that may be given piece by piece, under one name; the separator joins them.
CLI::Option* add_pieces(CLI::App& command, const std::string& names, char separator, Store store,
                        const std::string& help);
// --name is --name=true.
CLI::Option* add_truth(CLI::App& command, const std::string& names, Store store, const std::string& help);
// A flag that does something.
CLI::Option* add_action(CLI::App& command, const std::string& names, std::function<void()> action,
                        const std::string& help);

// ---- what goes with what ----

void require(CLI::Option* option);
void set_group(CLI::Option* option, const char* name);  // the part of the help it is in
// The others by a name of each; the command has them already.
void exclude(CLI::Option* option, std::initializer_list<const char*> others);
void need(CLI::Option* option, const char* other);
bool was_given(const CLI::Option* option);

}  // namespace cli
