#include "options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "console.h"
#include "errors.h"
#include "names.h"
#include "session_notes.h"
#include "settings.h"

namespace cli {
namespace {

constexpr std::size_t option_column = 30;

// Settings of how a model runs; all others are about choosing tokens.
constexpr std::array<std::string_view, 7> evaluation_settings = {"int8",   "isa",   "threads", "sinks",
                                                                 "window", "batch", "cache"};

// And of what a conversation or a prompt does to the window.
bool is_window(std::string_view name) { return name == "evict" || name == "overflow"; }

bool is_evaluation(std::string_view name) {
  return std::find(evaluation_settings.begin(), evaluation_settings.end(), name) != evaluation_settings.end();
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(' ', i), text.size());
    if (column > 0 && column + 1 + (end - i) > width) {
      out += '\n';
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out.append(text, i, end - i);
    column += end - i;
    i = end + 1;
  }
  return out;
}

namespace {

class HelpStyle : public CLI::Formatter {
 public:
  HelpStyle() {
    column_width(option_column);
    label("REQUIRED", "");
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, name);
  }
  // One empty line between groups, not two.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
    return help;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const bool must_be_told = option->get_required() && !option->get_positional();
    return wrapped(option->get_description() + (must_be_told ? "; required" : ""),
                   line_width - option_column);
  }
  // Exclusions are told when someone runs into them.
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool takes_value = option->get_type_size() != 0 && !option->get_positional();
    return takes_value ? " " + option->get_type_name() : "";
  }
};

}  // namespace

void set_help_style(CLI::App& app) { app.formatter(std::make_shared<HelpStyle>()); }

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.group("Commands");
  command.footer("Examples:\n" + examples);
  return command;
}

void add_model(CLI::App& command, std::string& path) {
  command.add_option("MODEL", path, "a GGUF file")->required()->check(named());
}

void add_optional_model(CLI::App& command, std::string& path) {
  command.add_option("MODEL", path, "a GGUF file; without one the bundled demo model")->check(named());
}

void TextOptions::add_to(CLI::App& command, const std::string& what) {
  text_option = command.add_option("-p,--prompt", text, what)->type_name("TEXT");
  file_option = command.add_option("-f,--file", file, what + ", from a file; - is standard input")
                    ->type_name("FILE")
                    ->check(named())
                    ->excludes(text_option);
}

std::string TextOptions::read() const {
  if (text_option->count() > 0) return text;
  if (file_option->count() > 0) return read_text(file);
  if (input_is_terminal()) throw UsageError("give a text with -p TEXT or -f FILE, or on standard input");
  return read_text("-");
}

void TokenOptions::add_to(CLI::App& command) {
  command.add_flag("--no-bos", no_bos, "do not begin with the model's BOS token");
  command.add_flag("--no-parse-special", no_parse_special,
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
    command
        .add_flag_callback(
            "--greedy", [this] { values_["temperature"] = "0"; },
            "always the likeliest token: --temperature 0")
        ->excludes("--temperature")
        ->group("Sampling");
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
  const char* group = is_evaluation(name) || is_window(name) ? "Running" : "Sampling";
  // Lists may be given piece by piece; of anything else the last one counts.
  const char separator = name == "stop" ? '\n' : name == "logit_bias" ? ',' : '\0';
  const auto store = [this, name, separator](const std::vector<std::string>& given) {
    std::string& value = values_[name];
    value = given.back();
    if (separator == '\0') return true;
    value.clear();
    for (const std::string& piece : given) value += (value.empty() ? "" : std::string(1, separator)) + piece;
    return true;
  };
  const std::string option_text = option_name(name);
  const std::string described =
      help(i) + (is_truth ? "; " + option_text + " or " + option_text + "=false" : "");
  CLI::Option* option = command.add_option(names, store, described)->group(group);
  option->multi_option_policy(separator ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  if (is_truth) {
    option->expected(0);  // --name is --name=true
  } else {
    option->expected(1)->type_name("VALUE");
  }
}

Config SettingOptions::config() const {
  Config config = new_config();
  for (const auto& [name, own] : defaults_)
    if (!own.value.empty()) set_setting(config.get(), name, own.value);
  for (const auto& [name, value] : values_) set_setting(config.get(), name, value);
  note_threads(std::stoll(runnel_config_get(config.get(), "threads")));
  return config;
}

std::vector<std::int32_t> parse_tokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const std::string& piece : CLI::detail::split(text, ',')) {
    const std::string number = CLI::detail::trim_copy(piece);
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

CLI::Validator one_of(std::vector<std::string> names) {
  const auto validate = [names = std::move(names)](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return "expected one of " + joined(names) + ", got \"" + text.substr(0, 40) + "\"";
  };
  return CLI::Validator(validate, "");
}

CLI::Validator named() {
  const auto validate = [](const std::string& text) {
    return text.empty() ? std::string("expected a name, got an empty one") : std::string();
  };
  return CLI::Validator(validate, "");
}

namespace {

// Not NaN, which lies in no range. Whole numbers lose the zeros before them, which CLI11 takes for octal.
template <class Number>
CLI::Validator in_range(Number low, Number high, const std::string& expected) {
  const auto validate = [low, high, expected](std::string& text) -> std::string {
    Number value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, value);
    if (status != std::errc{} || stop != end || !(value >= low && value <= high))
      return "expected " + expected + ", got \"" + text.substr(0, 40) + "\"";
    if constexpr (std::is_integral_v<Number>) text = std::to_string(value);
    return {};
  };
  return CLI::Validator(validate, "");
}

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return in_range(low, high, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

CLI::Option* add_count(CLI::App& command, const char* names, std::int64_t& value, std::int64_t least,
                       std::int64_t most, const std::string& help) {
  return command.add_option(names, value, help)->type_name("N")->transform(whole_number(least, most));
}

CLI::Validator unsigned_64() {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return in_range(std::uint64_t{0}, most, "a whole number from 0 to " + std::to_string(most));
}

CLI::Validator number(double low, double high) {
  return in_range(low, high, "a number from " + fixed(low, 0) + " to " + fixed(high, 0));
}

}  // namespace cli
