#include "options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "console.h"
#include "errors.h"
#include "names.h"
#include "session_notes.h"
#include "settings.h"

namespace cli {
namespace {

// Settings of how a model runs; all others are about choosing tokens.
constexpr std::array<std::string_view, 7> evaluation_settings = {"int8",   "isa",   "threads", "sinks",
                                                                 "window", "batch", "cache"};

// And of what a conversation or a prompt does to the window.
bool is_window(std::string_view name) { return name == "evict" || name == "overflow"; }

bool is_evaluation(std::string_view name) {
  return std::find(evaluation_settings.begin(), evaluation_settings.end(), name) != evaluation_settings.end();
}

}  // namespace

void add_optional_model(CLI::App& command, std::string& path) {
  add_file(command, "MODEL", path, "FILE", "a GGUF file; without one the bundled demo model");
}

void TextOptions::add_to(CLI::App& command, const std::string& what) {
  text_option_ = add_text(command, "-p,--prompt", text, "TEXT", what);
  file_option_ = add_file(command, "-f,--file", file, "FILE", what + ", from a file; - is standard input");
  exclude(file_option_, {"--prompt"});
}

bool TextOptions::given() const { return was_given(text_option_) || was_given(file_option_); }

std::string TextOptions::read() const {
  if (was_given(text_option_)) return text;
  if (was_given(file_option_)) return read_text(file);
  if (input_is_terminal()) throw UsageError("give a text with -p TEXT or -f FILE, or on standard input");
  return read_text("-");
}

std::string TextOptions::read_prompt() const {
  std::string prompt = read();
  if (was_given(text_option_) || !prompt.ends_with('\n')) return prompt;
  prompt.pop_back();
  if (prompt.ends_with('\r')) prompt.pop_back();
  return prompt;
}

std::string length_text(std::size_t n_tokens, bool is_cut) {
  const std::string length = counted(static_cast<std::int64_t>(n_tokens), "token");
  return is_cut ? "--max-tokens leaves " + length + " of the text" : "the text has " + length;
}

void TokenOptions::add_to(CLI::App& command) {
  add_flag(command, "--no-bos", no_bos, "do not begin with the model's BOS token");
  add_flag(command, "--no-parse-special", no_parse_special,
           "special tokens spelled in the text, as <|end|>, are ordinary text");
}

unsigned TokenOptions::flags() const {
  unsigned flags = RUNNEL_TEXT_ONLY;
  if (!no_bos) flags |= RUNNEL_ADD_BOS;
  if (!no_parse_special) flags |= RUNNEL_PARSE_SPECIAL;
  return flags;
}

void SettingOptions::add_to(CLI::App& command, Which which) {
  const Config defaults = new_config();
  const std::vector<std::string> names = names_of(runnel_setting_name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "vocab_only") continue;  // what a command does decides it, not its user
    if (which == Which::evaluation && !is_evaluation(names[i])) continue;
    if (which != Which::chat && (names[i] == "template" || names[i] == "evict")) continue;
    add_setting(command, i, defaults.get());
  }
  if (which != Which::evaluation) {
    CLI::Option* greedy = add_action(
        command, "--greedy", [this] { values_["temperature"] = "0"; },
        "always the likeliest token: --temperature 0");
    exclude(greedy, {"--temperature"});
    set_group(greedy, "Sampling");
  }
}

void SettingOptions::add_to(CLI::App& command, std::initializer_list<std::string_view> names) {
  const Config defaults = new_config();
  const std::vector<std::string> all = names_of(runnel_setting_name);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::find(names.begin(), names.end(), all[i]) != names.end()) add_setting(command, i, defaults.get());
  }
}

std::string SettingOptions::help(std::size_t i) const {
  std::string text = runnel_setting_help(i);
  const auto own = defaults_.find(runnel_setting_name(i));
  if (own == defaults_.end()) return text;
  constexpr const char* mark = "; default ";
  return text.substr(0, text.rfind(mark)) + mark + own->second.told;
}

void SettingOptions::add_setting(CLI::App& command, std::size_t i, const runnel_config* defaults) {
  const std::string name = runnel_setting_name(i);
  const std::string_view default_value = runnel_config_get(defaults, name.c_str());
  const bool is_truth = default_value == "true" || default_value == "false";
  std::string names = option_name(name);
  if (name == "threads") names = "-t," + names;
  if (name == "temperature") names += ",--temp";
  const Store store = [this, name](const std::string& value) { values_[name] = value; };
  const auto add = [&] {
    const std::string option = option_name(name);
    if (is_truth)
      return add_truth(command, names, store, help(i) + "; " + option + " or " + option + "=false");
    if (name == "stop") return add_pieces(command, names, '\n', store, help(i));
    if (name == "logit_bias") return add_pieces(command, names, ',', store, help(i));
    return add_value(command, names, store, help(i));
  };
  set_group(add(), is_evaluation(name) || is_window(name) ? "Running" : "Sampling");
}

Config SettingOptions::config() const {
  Config config = new_config();
  for (const auto& [name, own] : defaults_)
    if (!own.value.empty()) set_setting(config.get(), name, own.value);
  for (const auto& [name, value] : values_) set_setting(config.get(), name, value);
  note_threads(std::stoll(runnel_config_get(config.get(), "threads")));
  return config;
}

namespace {

// Those around the text.
std::string without_blanks(const std::string& text) {
  constexpr const char* blanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

}  // namespace

std::vector<std::int32_t> parse_tokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const std::string& piece : split(text, ',')) {
    const std::string number = without_blanks(piece);
    std::int32_t token = 0;
    const char* end = number.data() + number.size();
    const auto [stop, status] = std::from_chars(number.data(), end, token);
    if (status != std::errc{} || stop != end) {
      throw UsageError("token " + std::to_string(tokens.size() + 1) +
                       " of the list: expected a whole number, got \"" + number.substr(0, 40) + "\"");
    }
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace cli
