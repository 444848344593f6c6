#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "console.h"
#include "errors.h"
#include "names.h"

namespace cli {

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

// ---- help ----

namespace {

constexpr std::size_t option_column = 30;

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

void on_command(CLI::App& command, Run& run, Run action) {
  command.callback([&run, action = std::move(action)] { run = action; });
}

// ---- arguments ----

namespace {

bool takes_value(const CLI::Option* option) { return option && option->get_items_expected_max() > 0; }

// Whether the next argument is the value of this one: of "--seed", of "-n" and of "-qn".
bool awaits_value(const CLI::App& command, const std::string& argument) {
  if (argument.starts_with("--")) return takes_value(command.get_option_no_throw(argument));
  for (std::size_t i = 1; argument.starts_with('-') && i < argument.size(); ++i) {
    const CLI::Option* option = command.get_option_no_throw(std::string("-") + argument[i]);
    if (!option) return false;
    if (takes_value(option)) return i + 1 == argument.size();
  }
  return false;
}

// Of "--option=" alone. A flag has no value that could be empty.
bool has_empty_value(const CLI::App& command, const std::string& argument) {
  if (!argument.starts_with("--") || !argument.ends_with('=')) return false;
  const CLI::Option* option = command.get_option_no_throw(argument.substr(0, argument.size() - 1));
  if (option && !takes_value(option)) throw UsageError(argument + " ends without a value");
  return option != nullptr;
}

// Makes "--option" and "" of "--option=", wherever that is no value itself.
void split_empty_values(const CLI::App& app, std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    for (const CLI::App* one : app.get_subcommands({}))
      if (command == &app && one->get_name() == arguments[i]) command = one;
    if (has_empty_value(*command, arguments[i])) {
      arguments[i].pop_back();
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
    }
    if (awaits_value(*command, arguments[i])) ++i;
  }
}

}  // namespace

void parse(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  split_empty_values(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  app.parse(std::move(arguments));
}

// ---- what a value must be ----

namespace {

CLI::Validator named() {
  const auto validate = [](const std::string& text) {
    return text.empty() ? std::string("expected a name, got an empty one") : std::string();
  };
  return CLI::Validator(validate, "");
}

// Not "-", which elsewhere is standard input.
CLI::Validator no_dash(const std::string& what, const std::string& instead = "") {
  const auto validate = [what, instead](const std::string& text) -> std::string {
    return text == "-" ? "expected the name of a " + what + ", got \"-\"" + instead : "";
  };
  return CLI::Validator(validate, "");
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto validate = [names](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return "expected one of " + joined(names) + ", got \"" + text.substr(0, 40) + "\"";
  };
  return CLI::Validator(validate, "");
}

// The whole text as a number.
template <std::integral Whole>
bool read_number(const std::string& text, Whole& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc{} && stop == end;
}
// In the locale "C", which LC_NUMERIC stays in. The charconv of libc++ reads no such numbers before its
// version 20.
bool read_number(const std::string& text, double& value) {
  if (text.empty() || text.front() == '+' || text.find_first_not_of("0123456789.eE+-") != text.npos)
    return false;
  char* stop = nullptr;
  value = std::strtod(text.c_str(), &stop);
  return stop == text.c_str() + text.size();
}

// Whole numbers lose the zeros before them, which CLI11 takes for octal.
template <class Number>
CLI::Validator in_range(Number low, Number high, const std::string& expected) {
  const auto validate = [low, high, expected](std::string& text) -> std::string {
    Number value = 0;
    if (!read_number(text, value) || value < low || value > high)
      return "expected " + expected + ", got \"" + text.substr(0, 40) + "\"";
    if constexpr (std::is_integral_v<Number>) text = std::to_string(value);
    return {};
  };
  return CLI::Validator(validate, "");
}

// Given to transform(), not to check(): it rewrites what CLI11 would not read in decimal.
template <class Whole>
CLI::Validator whole_number(Whole low, Whole high) {
  return in_range(low, high, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

CLI::Validator whole_numbers(std::int32_t low, std::int32_t high) {
  const auto validate = [each = whole_number(low, high)](const std::string& text) -> std::string {
    for (std::string& piece : split(text, ','))
      if (std::string problem = each(piece); !problem.empty()) return problem;
    return {};
  };
  return CLI::Validator(validate, "");
}

}  // namespace

// ---- options ----

CLI::Option* add_flag(CLI::App& command, const std::string& names, bool& value, const std::string& help) {
  return command.add_flag(names, value, help)->disable_flag_override();
}

CLI::Option* add_text(CLI::App& command, const std::string& names, std::string& value, const char* type,
                      const std::string& help) {
  return command.add_option(names, value, help)->type_name(type);
}

CLI::Option* add_file(CLI::App& command, const std::string& names, std::string& value, const char* type,
                      const std::string& help) {
  return add_text(command, names, value, type, help)->check(named());
}

CLI::Option* add_written_file(CLI::App& command, const std::string& names, std::string& value,
                              const std::string& help) {
  return add_file(command, names, value, "FILE", help)->check(no_dash("file"));
}

CLI::Option* add_output(CLI::App& command, const std::string& names, std::string& value,
                        const std::string& help) {
  return add_file(command, names, value, "FILE", help)
      ->check(no_dash("file", "; standard output is /dev/stdout"));
}

CLI::Option* add_folder(CLI::App& command, const std::string& names, std::string& value,
                        const std::string& help) {
  return add_file(command, names, value, "FOLDER", help)->check(no_dash("folder"));
}

CLI::Option* add_choice(CLI::App& command, const std::string& names, std::string& value, const char* type,
                        const std::vector<std::string>& choices, const std::string& help) {
  return add_text(command, names, value, type, help)->check(one_of(choices));
}

CLI::Option* add_count(CLI::App& command, const std::string& names, std::int64_t& value, std::int64_t least,
                       std::int64_t most, const std::string& help) {
  return command.add_option(names, value, help)->type_name("N")->transform(whole_number(least, most));
}

CLI::Option* add_unsigned(CLI::App& command, const std::string& names, std::uint64_t& value,
                          const std::string& help) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return command.add_option(names, value, help)
      ->type_name("N")
      ->transform(whole_number(std::uint64_t{0}, most));
}

CLI::Option* add_number(CLI::App& command, const std::string& names, double& value, double least, double most,
                        const std::string& help) {
  return command.add_option(names, value, help)
      ->type_name("R")
      ->check(in_range(least, most, "a number from " + fixed(least, 0) + " to " + fixed(most, 0)));
}

CLI::Option* add_counts(CLI::App& command, const std::string& names, std::vector<std::int32_t>& values,
                        std::int32_t least, std::int32_t most, const std::string& help) {
  const auto store = [&values](const std::string& text) {
    values.clear();
    for (const std::string& piece : split(text, ',')) values.push_back(std::stoi(piece));
  };
  return add_value(command, names, store, help)->type_name("LIST")->check(whole_numbers(least, most));
}

CLI::Option* add_value(CLI::App& command, const std::string& names, Store store, const std::string& help) {
  // Its first: behind a lone "{}", which it takes for an empty list, CLI11 puts "%%" from version 2.3 on.
  const auto store_it = [store = std::move(store)](const std::vector<std::string>& given) {
    store(given.front());
    return true;
  };
  return command.add_option(names, store_it, help)->type_name("VALUE")->expected(1);
}

CLI::Option* add_pieces(CLI::App& command, const std::string& names, char separator, Store store,
                        const std::string& help) {
  // As they were given, not as CLI11 makes a list of them (see add_value).
  const auto store_all = [&command, names, store = std::move(store),
                          separator](const std::vector<std::string>&) {
    std::string all;
    for (const std::string& piece : command.get_option(names)->results())
      all += (all.empty() ? "" : std::string(1, separator)) + piece;
    store(all);
    return true;
  };
  return command.add_option(names, store_all, help)
      ->type_name("VALUE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1);
}

CLI::Option* add_truth(CLI::App& command, const std::string& names, Store store, const std::string& help) {
  return add_value(command, names, std::move(store), help)->type_name("")->expected(0);
}

CLI::Option* add_action(CLI::App& command, const std::string& names, std::function<void()> action,
                        const std::string& help) {
  return command.add_flag_callback(names, std::move(action), help)->disable_flag_override();
}

// ---- what goes with what ----

void require(CLI::Option* option) { option->required(); }

void set_group(CLI::Option* option, const char* name) { option->group(name); }

void exclude(CLI::Option* option, std::initializer_list<const char*> others) {
  for (const char* other : others) option->excludes(other);
}

void need(CLI::Option* option, const char* other) { option->needs(other); }

bool was_given(const CLI::Option* option) { return option->count() > 0; }

}  // namespace cli
