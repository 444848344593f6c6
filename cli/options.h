// Command-line options that several commands share.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "library.h"

namespace cli {

// A subcommand with its description and, at the end of its help, examples.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples);

// The text with line breaks for blanks, so that no line is longer than this unless a word is.
constexpr std::size_t line_width = 100;
std::string wrapped(const std::string& text, std::size_t width = line_width);

// Wraps long descriptions; for the app, before its subcommands are added.
void set_help_style(CLI::App& app);

void add_model(CLI::App& command, std::string& path);           // required
void add_optional_model(CLI::App& command, std::string& path);  // else the bundled one

// -p TEXT or -f FILE.
struct TextOptions {
  std::string text, file;
  CLI::Option* text_option = nullptr;
  CLI::Option* file_option = nullptr;

  void add_to(CLI::App& command, const std::string& what);
  // The text; without either option standard input, unless that is a terminal: then UsageError.
  std::string read() const;
};

// How a text becomes tokens: --no-bos and --no-parse-special.
struct TokenOptions {
  bool no_bos = false;
  bool no_parse_special = false;

  void add_to(CLI::App& command);
  unsigned flags() const;  // of runnel_tokenize
};

// The library's settings as options: snake_case becomes --kebab-case, the help is the library's.
class SettingOptions {
 public:
  enum class Which {
    evaluation,  // how the model runs
    generation,  // and how tokens are chosen
    chat         // and the form of a conversation
  };
  // Before add_to: another default than the library's. `told` is what help says of one that is only known
  // later.
  void set_default(const std::string& name, const std::string& value) { defaults_[name] = {value, value}; }
  void tell_default(const std::string& name, const std::string& told) { defaults_[name] = {"", told}; }

  void add_to(CLI::App& command, Which which);
  // These alone, by the library's names.
  void add_to(CLI::App& command, std::initializer_list<std::string_view> names);

  // The defaults and what was given. UsageError for a bad value; more threads than cores are remarked on.
  Config config() const;
  bool given(const std::string& name) const { return values_.count(name) != 0; }
  bool any_given() const { return !values_.empty(); }

 private:
  // i: in the library's order; defaults: the library's.
  void add_setting(CLI::App& command, std::size_t i, const runnel_config* defaults);
  std::string help(std::size_t i) const;

  struct Default {
    std::string value;  // empty: set by the command itself
    std::string told;
  };

  std::map<std::string, std::string> values_;  // by the library's names
  std::map<std::string, Default> defaults_;    // those that are the command's own
};

// "1,2,3", with blanks where one likes. UsageError for anything that is not a list of whole numbers.
std::vector<std::int32_t> parse_tokens(const std::string& text);

// Checks that there is a name: an empty one is a variable that a script forgot to set.
CLI::Validator named();

// Checks that it is one of these.
CLI::Validator one_of(std::vector<std::string> names);

// An option that takes a whole number. The help names its default.
CLI::Option* add_count(CLI::App& command, const char* names, std::int64_t& value, std::int64_t least,
                       std::int64_t most, const std::string& help);

// Check an option's value; the limits are inclusive. Those of whole numbers are given to transform(), not to
// check(): they rewrite what CLI11 would not read in decimal.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
CLI::Validator unsigned_64();  // a whole number of 64 bits
CLI::Validator number(double low, double high);
constexpr std::int64_t most_tokens = 1'000'000'000'000'000;

}  // namespace cli
