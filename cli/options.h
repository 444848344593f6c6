// Command-line options that several commands share.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "library.h"

namespace cli {

void add_optional_model(CLI::App& command, std::string& path);  // else the bundled one

// -p TEXT or -f FILE.
struct TextOptions {
  std::string text, file;

  void add_to(CLI::App& command, const std::string& what);
  bool given() const;  // either option
  // The text; without either option standard input, unless that is a terminal: then UsageError.
  std::string read() const;
  // The same to be continued: the newline that editors and echo put at the end is no part of the text.
  std::string read_prompt() const;

 private:
  CLI::Option* text_option_ = nullptr;
  CLI::Option* file_option_ = nullptr;
};

// For an error, "the text has 12 tokens", or what --max-tokens has left of it.
std::string length_text(std::size_t n_tokens, bool is_cut);

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

constexpr std::int64_t most_tokens = 1'000'000'000'000'000;

}  // namespace cli
