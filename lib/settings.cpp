#include "lib/settings.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <variant>

#include "lib/chat/form.h"
#include "lib/text/number_text.h"
#include "lib/text/printable.h"
#include "lib/text/utf8.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

// ---- kinds of settings: where the value lives, and what it may be ----

struct Whole {
  std::int32_t Settings::*at;
  std::int32_t low, high;  // inclusive
  const char* unit;        // "of tokens", or ""
};

struct Seed {
  std::uint64_t Settings::*at;
};

struct Real {
  float Settings::*at;
  float low, high;         // inclusive, except
  bool above_low = false;  // low itself is out of range
};

struct Truth {
  bool Settings::*at;
};

template <class T>
struct Choice {
  T Settings::*at;
};
struct KernelRow {};
struct Template {};
struct BiasList {};
struct StopList {};

using Kind = std::variant<Whole, Seed, Real, Truth, Choice<CacheType>, Choice<Evict>, Choice<Overflow>,
                          KernelRow, Template, BiasList, StopList>;

struct Row {
  SettingInfo info;
  Kind kind;
};

// ---- the table ----

constexpr std::int32_t max_int = std::numeric_limits<std::int32_t>::max();
constexpr auto model = SettingScope::model;
constexpr auto session = SettingScope::session;
constexpr auto running = SettingScope::running;
constexpr auto sampling = SettingScope::sampling;

// Help: meaning and unit; range; "default" and the value as get() writes it.
constexpr Row rows[] = {
    {{"vocab_only", "open a file for its tokenizer alone; true or false; default false", model},
     Truth{&Settings::vocab_only}},
    {{"int8",
      "run in int8: weights are packed when the model is opened, activations as they come; true or false; "
      "default false",
      model},
     Truth{&Settings::int8}},
    {{"isa", "kernel row, by name; empty: the best this CPU runs; default empty", session}, KernelRow{}},

    {{"threads", "threads; 0 to 1024, 0: one for each performance core; default 0", running},
     Whole{&Settings::threads, 0, 1024, "of threads "}},
    {{"sinks", "first tokens that stay for ever, in tokens; 0 to 1048576; default 4", session},
     Whole{&Settings::sinks, 0, 1 << 20, "of tokens "}},
    {{"window",
      "last tokens that the model sees, in tokens; 0 to 16777216, 0: what the trained context leaves, at "
      "most 4096; default 0",
      session},
     Whole{&Settings::window, 0, 1 << 24, "of tokens "}},
    {{"batch", "tokens of a prompt that go through the model together; 1 to 65536; default 256", session},
     Whole{&Settings::batch, 1, 65536, "of tokens "}},
    {{"cache", "type of the cached keys and values; f32, f16 or int8; default f16", session},
     Choice<CacheType>{&Settings::cache}},
    {{"evict",
      "what leaves a full window: token: the oldest token; turn: the oldest exchange as a whole, so that a "
      "chat stays well-formed (what stands in front of the first exchange stays, in place of the sinks); "
      "auto: turn in a chat, token elsewhere; default auto",
      running},
     Choice<Evict>{&Settings::evict}},
    {{"overflow",
      "a text that is longer than the window: stream: goes through it, and its beginning is no longer seen; "
      "error: is refused; default stream",
      running},
     Choice<Overflow>{&Settings::overflow}},

    {{"logit_bias",
      "added to the logits of tokens, as id=bias,id=bias...; -1000 to 1000, or -inf: never; default empty",
      sampling},
     BiasList{}},
    {{"repetition_penalty",
      "divides (negative: multiplies) the logits of recent tokens; 0.1 to 10, 1: off; default 1", sampling},
     Real{&Settings::repetition_penalty, 0.1f, 10.0f}},
    {{"presence_penalty", "taken off the logits of recent tokens; -10 to 10, 0: off; default 0", sampling},
     Real{&Settings::presence_penalty, -10.0f, 10.0f}},
    {{"frequency_penalty",
      "taken off the logits of recent tokens for each time they came up; -10 to 10, 0: off; default 0",
      sampling},
     Real{&Settings::frequency_penalty, -10.0f, 10.0f}},
    {{"penalty_window", "last tokens that the penalties count, in tokens; 0 to 1048576, 0: none; default 64",
      sampling},
     Whole{&Settings::penalty_window, 0, 1 << 20, "of tokens "}},
    {{"top_k", "keep this many of the likeliest tokens; 0 to 2147483647, 0: all; default 40", sampling},
     Whole{&Settings::top_k, 0, max_int, "of tokens "}},
    {{"typical_p",
      "keep the tokens whose surprise is nearest to the expected one, up to this probability; above 0 to 1, "
      "1: all; default 1",
      sampling},
     Real{&Settings::typical_p, 0.0f, 1.0f, true}},
    {{"top_p", "keep the likeliest tokens up to this probability; above 0 to 1, 1: all; default 0.95",
      sampling},
     Real{&Settings::top_p, 0.0f, 1.0f, true}},
    {{"min_p", "keep tokens at least this likely relative to the likeliest; 0 to 1, 0: all; default 0.05",
      sampling},
     Real{&Settings::min_p, 0.0f, 1.0f}},
    {{"temperature", "divides the logits; 0 to 100, 0: always the likeliest token; default 0.8", sampling},
     Real{&Settings::temperature, 0.0f, 100.0f}},
    {{"seed",
      "start of the random numbers; 0 to 18446744073709551615, or random: drawn when it is set; default 0",
      sampling},
     Seed{&Settings::seed}},

    {{"stop",
      "texts that end the generation, one a line, with \\n, \\t and \\\\ for those characters; at most 64 of "
      "at most 1024 bytes; default empty",
      running},
     StopList{}},
    {{"ignore_eos", "generate through the ends of texts and turns; true or false; default false", running},
     Truth{&Settings::ignore_eos}},
    {{"template", "chat form: a known name, or the text of a template; empty: the model's own; default empty",
      session},
     Template{}},
};

template <class T>
struct ChoiceName {
  const char* name;
  T value;
};
constexpr ChoiceName<CacheType> cache_names[] = {
    {"f32", CacheType::f32}, {"f16", CacheType::f16}, {"int8", CacheType::i8}};
constexpr ChoiceName<Evict> evict_names[] = {
    {"auto", Evict::automatic}, {"token", Evict::token}, {"turn", Evict::turn}};
constexpr ChoiceName<Overflow> overflow_names[] = {{"stream", Overflow::stream}, {"error", Overflow::error}};

constexpr std::span<const ChoiceName<CacheType>> names_of(CacheType) { return cache_names; }
constexpr std::span<const ChoiceName<Evict>> names_of(Evict) { return evict_names; }
constexpr std::span<const ChoiceName<Overflow>> names_of(Overflow) { return overflow_names; }

constexpr std::size_t max_stops = 64;
constexpr std::size_t max_stop_bytes = 1024;

// ---- errors ----

Error bad(const SettingInfo& info, const std::string& expected, std::string_view value) {
  return error(RUNNEL_BAD_ARGUMENT, "%s: expected %s, got \"%s\"", info.name, expected.c_str(),
               printable(value, 60).c_str());
}

// ---- numbers ----

// The whole text as a number, or nothing: no blanks, no sign '+', no trailing characters, no overflow.
template <std::integral T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// Finite and within the limits. Minus zero becomes zero, and so does what is too small for a float.
std::optional<float> parse_real(std::string_view text, float low, float high) {
  const auto value = float_of_text(text);
  if (!value || *value < low || *value > high) return std::nullopt;
  return *value + 0.0f;
}

// ---- set and get, one pair a kind ----

Result<void> set(const Whole& kind, const SettingInfo& info, std::string_view text, Settings& out) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value || *value < kind.low || *value > kind.high) {
    return bad(info,
               std::string("a whole number ") + kind.unit + "from " + number_text(kind.low) + " to " +
                   number_text(kind.high),
               text);
  }
  out.*kind.at = static_cast<std::int32_t>(*value);
  return {};
}

std::string get(const Whole& kind, const Settings& in) { return number_text(in.*kind.at); }

// Of the system's. Throws where it gives none.
std::uint64_t random_seed() {
  static_assert(std::random_device::min() == 0 && std::random_device::max() == 0xffffffff);
  std::random_device word;
  const std::uint64_t high = word();
  return high << 32 | word();
}

Result<void> set(const Seed& kind, const SettingInfo& info, std::string_view text, Settings& out) {
  if (text == "random") {
    out.*kind.at = random_seed();
    return {};
  }
  const auto value = parse_number<std::uint64_t>(text);
  if (!value) return bad(info, "a whole number from 0 to 18446744073709551615, or random", text);
  out.*kind.at = *value;
  return {};
}

std::string get(const Seed& kind, const Settings& in) { return number_text(in.*kind.at); }

Result<void> set(const Real& kind, const SettingInfo& info, std::string_view text, Settings& out) {
  const auto value = parse_real(text, kind.low, kind.high);
  if (!value || (kind.above_low && *value <= kind.low)) {
    return bad(info,
               std::string("a number ") + (kind.above_low ? "above " : "from ") + number_text(kind.low) +
                   (kind.above_low ? " and up to " : " to ") + number_text(kind.high),
               text);
  }
  out.*kind.at = *value;
  return {};
}

std::string get(const Real& kind, const Settings& in) { return number_text(in.*kind.at); }

Result<void> set(const Truth& kind, const SettingInfo& info, std::string_view text, Settings& out) {
  if (text != "true" && text != "false") return bad(info, "true or false", text);
  out.*kind.at = text == "true";
  return {};
}

std::string get(const Truth& kind, const Settings& in) { return in.*kind.at ? "true" : "false"; }

void add_name(std::string& names, const char* separator, const char* name) {
  if (!names.empty()) names += separator;
  names += name;
}

template <class T>
Result<void> set(const Choice<T>& kind, const SettingInfo& info, std::string_view text, Settings& out) {
  std::string expected;
  for (const ChoiceName<T>& row : names_of(T{})) {
    if (text == row.name) {
      out.*kind.at = row.value;
      return {};
    }
    add_name(expected, " or ", row.name);
  }
  return bad(info, expected, text);
}

template <class T>
const char* name_of(T value) {
  for (const ChoiceName<T>& row : names_of(value)) {
    if (row.value == value) return row.name;
  }
  return "";
}

template <class T>
std::string get(const Choice<T>& kind, const Settings& in) {
  return name_of(in.*kind.at);
}

Result<void> set(const KernelRow&, const SettingInfo& info, std::string_view text, Settings& out) {
  const std::uint32_t features = simd::cpu_features();
  std::string expected;
  bool is_here = text.empty();
  for (const simd::IsaRow& row : simd::isa_rows()) {
    if (!row.runs_on(features)) continue;
    is_here = is_here || text == row.name;
    add_name(expected, " or ", row.name);
  }
  if (!is_here) return bad(info, expected + " (what is built in and this CPU runs)", text);
  out.isa = text;
  return {};
}

std::string get(const KernelRow&, const Settings& in) { return in.isa; }

Result<void> set(const Template&, const SettingInfo& info, std::string_view text, Settings& out) {
  if (!text.empty() && !find_chat_form(text) && !recognise_chat_form(text))
    return bad(info,
               "the name of a chat form (" + chat_form_names() + ") or the text of a template of one of them",
               text);
  out.chat_template = text;
  return {};
}

std::string get(const Template&, const Settings& in) { return in.chat_template; }

// "15=-1.5" as (15, -1.5)
std::optional<std::pair<std::int32_t, float>> parse_bias(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto token = parse_number<std::int32_t>(text.substr(0, equals));
  if (!token || *token < 0) return std::nullopt;
  const std::string_view amount = text.substr(equals + 1);
  if (amount == "-inf") return std::pair{*token, -std::numeric_limits<float>::infinity()};
  const auto bias = parse_real(amount, -1000.0f, 1000.0f);
  if (!bias) return std::nullopt;
  return std::pair{*token, *bias};
}

Result<void> set(const BiasList&, const SettingInfo& info, std::string_view text, Settings& out) {
  std::vector<std::pair<std::int32_t, float>> biases;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const auto bias = parse_bias(rest.substr(0, comma));
    if (!bias)
      return bad(info, "id=bias,id=bias... with biases from -1000 to 1000 or -inf", rest.substr(0, comma));
    biases.push_back(*bias);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  std::sort(biases.begin(), biases.end());
  const auto twice = std::adjacent_find(biases.begin(), biases.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != biases.end()) return bad(info, "each token once", number_text(twice->first) + " twice");
  out.logit_bias = std::move(biases);
  return {};
}

std::string get(const BiasList&, const Settings& in) {
  std::string text;
  for (const auto& [token, bias] : in.logit_bias) {
    if (!text.empty()) text += ',';
    text += number_text(token) + '=' + number_text(bias);
  }
  return text;
}

struct Escape {
  char letter, meaning;
};
constexpr Escape escapes[] = {{'n', '\n'}, {'t', '\t'}, {'\\', '\\'}};

std::optional<std::string> unescape(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
      continue;
    }
    const char letter = ++i < line.size() ? line[i] : '\0';
    const auto* escape = std::find_if(std::begin(escapes), std::end(escapes),
                                      [letter](const Escape& e) { return e.letter == letter; });
    if (escape == std::end(escapes)) return std::nullopt;
    text += escape->meaning;
  }
  return text;
}

Result<void> set(const StopList&, const SettingInfo& info, std::string_view text, Settings& out) {
  std::vector<std::string> stops;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t newline = rest.find('\n');
    auto stop = unescape(rest.substr(0, newline));
    if (!stop || stop->size() > max_stop_bytes || !is_utf8(*stop)) {
      return bad(info, "texts of at most 1024 bytes of UTF-8, with \\n, \\t or \\\\ after a \\",
                 rest.substr(0, newline));
    }
    if (!stop->empty()) stops.push_back(std::move(*stop));
    rest = newline == std::string_view::npos ? std::string_view{} : rest.substr(newline + 1);
  }
  if (stops.size() > max_stops) return bad(info, "at most 64 texts", number_text(stops.size()));
  out.stop = std::move(stops);
  return {};
}

std::string get(const StopList&, const Settings& in) {
  std::string text;
  for (const std::string& stop : in.stop) {
    if (!text.empty()) text += '\n';
    for (const char c : stop) {
      const auto* escape = std::find_if(std::begin(escapes), std::end(escapes),
                                        [c](const Escape& e) { return e.meaning == c; });
      if (escape != std::end(escapes)) {
        text += {'\\', escape->letter};
      } else {
        text += c;
      }
    }
  }
  return text;
}

// ---- names ----

const Row* find_row(std::string_view name) {
  const Row* row =
      std::find_if(std::begin(rows), std::end(rows), [name](const Row& r) { return name == r.info.name; });
  return row == std::end(rows) ? nullptr : row;
}

Error unknown_name(std::string_view name) {
  std::string names;
  for (const Row& row : rows) add_name(names, ", ", row.info.name);
  return error(RUNNEL_BAD_ARGUMENT, "there is no setting \"%s\"; the settings are %s",
               printable(name, 60).c_str(), names.c_str());
}

}  // namespace

const char* cache_type_name(CacheType type) { return name_of(type); }

Result<void> Settings::set(std::string_view name, std::string_view value) {
  const Row* row = find_row(name);
  if (!row) return unknown_name(name);
  return std::visit([&](const auto& kind) { return runnel::set(kind, row->info, value, *this); }, row->kind);
}

Result<std::string> Settings::get(std::string_view name) const {
  const Row* row = find_row(name);
  if (!row) return unknown_name(name);
  return std::visit([&](const auto& kind) { return runnel::get(kind, *this); }, row->kind);
}

std::size_t n_settings() { return std::size(rows); }

const SettingInfo& setting_info(std::size_t i) { return rows[i].info; }

const SettingInfo* find_setting(std::string_view name) {
  const Row* row = find_row(name);
  return row ? &row->info : nullptr;
}

}  // namespace runnel
