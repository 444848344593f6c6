#include <algorithm>
#include <iterator>

#include "lib/chat/form.h"

namespace runnel {
namespace {

// A template is of a form when it holds all of `has` and none of `lacks`; the first row that fits decides, so
// that the particular comes before the general. The texts are as in plain(): \n is a newline, and quotes are
// '.
struct Signature {
  const char* form;
  const char* has[4] = {};
  const char* lacks[3] = {};
};

constexpr const char* no_form = "";  // that is known

constexpr Signature signatures[] = {
    {"phi4", {"<|im_start|>", "<|im_sep|>"}},
    {"chatml-think", {"<|im_start|>", "<|im_start|>assistant\n<think>\n'"}},
    {"chatml-think", {"<|im_start|>", "{%- else %}{{- '<think>\n' }}"}},
    {"chatml-no-think", {"<|im_start|>assistant\n<think>\n\n</think>\n\n'"}, {"<|im_start|>assistant\n'"}},
    {"chatml", {"<|im_start|>", "<|im_end|>"}},

    {"openchat-3.6", {"<|start_header_id|>GPT4 Correct ", "<|eot_id|>"}},
    {"llama3.1", {"<|start_header_id|>", "<|eot_id|>", "Cutting Knowledge Date", "Today Date"}},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}, {">>>", "Cutting Knowledge Date"}},
    {"llama4", {"<|header_start|>", "<|eot|>"}},

    {"mistral-v7", {"'[SYSTEM_PROMPT] '", "[/INST]"}},
    {"mistral-v7-tekken", {"[SYSTEM_PROMPT]", "[/INST]"}},
    {"llama2", {"<<SYS>>", "bos_token + '[INST] '"}},
    {"llama2-one-bos", {"<<SYS>>", "{{ bos_token }}{%", "'[INST] ' + content.strip()", "' ' + eos_token"}},
    {no_form, {"<<SYS>>", "[INST]"}},  // others like Llama 2's
    {"mistral-v1", {"' [INST] '"}},
    {"mistral-v3-tekken", {"'[INST]'", "'[/INST]'"}},
    {"mistral-v3", {"'[INST] '", "'[/INST]'"}},
    {"mistral-v0.1", {"'[INST] '", "' [/INST]'", "eos_token + ' '"}},
    {"mistral", {"'[INST] '", "' [/INST]'"}},

    {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
    {"granite", {"<|start_of_role|>", "<|end_of_role|>"}},
    {"command-r", {"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}, {"<|START_TEXT|>", "<|START_RESPONSE|>"}},
    {"openchat", {"GPT4 Correct ", "<|end_of_turn|>"}},

    {"deepseek-r1", {"<｜User｜>", "<｜Assistant｜><think>\n'"}},
    {"deepseek-v3.1", {"<｜User｜>", "<｜Assistant｜>", "not thinking"}},
    {"deepseek-v3", {"<｜User｜>", "<｜Assistant｜>"}},
    {"deepseek-coder", {"### Instruction:\n", "<|EOT|>"}},
    {"deepseek", {"'User: '", "'\n\n'", "'Assistant: ' + message['content'] + eos_token"}},
    {"vicuna-orca", {"USER: ", "ASSISTANT:", "SYSTEM: "}},
    {"vicuna-v1.1", {"' USER: '", "' ASSISTANT:'"}, {"\nUSER: "}},
    {"vicuna", {"USER: ", "ASSISTANT:"}},

    {"runnel-demo", {"{{ ' ' }}", "'<|' + m['role'] + '|>' + m['content'] + '<|end|>'"}},
    {"phi3", {"<|user|>", "<|end|>"}, {"\n<|end|>", "[gMASK]", "<|message|>"}},
    {"phi3", {"'<|' + message['role'] + '|>' + '\n'", "<|end|>"}},
    {"phi4-mini", {"'<|' + message['role'] + '|>' + message['content'] + '<|end|>'"}},
    {"tulu", {"'<|user|>\n' + message['content'] + '\n'", "<|assistant|>\n", "eos_token"}},
    {"tulu",
     {"'<|user|>\n' + message['content'] }}", "<|assistant|>\n", "eos_token"}},  // and its own newline
    {"zephyr", {"<|user|>\n", "<|assistant|>", "eos_token"}, {"<|end|>", "[gMASK]"}},
};

// What a backslash and this letter stand for in a string of a template; the letter itself where they are no
// escape.
char unescaped(char letter) { return letter == 'n' ? '\n' : letter == 't' ? '\t' : letter; }

// Follows a template's tags, and the strings in them.
class Tags {
 public:
  // Takes a character that is not escaped, and the one after it. Whether it is a quote around a string.
  bool take(char c, char next) {
    if (quote_ != '\0') {
      if (c != quote_) return false;
      quote_ = '\0';
      return true;
    }
    if (end_ == '\0') {
      if (c == '{' && next == '{') end_ = '}';
      if (c == '{' && next == '%') end_ = '%';
      return false;
    }
    if (c == end_ && next == '}') end_ = '\0';
    if (c == '\'' || c == '"') quote_ = c;
    return quote_ != '\0';
  }

 private:
  char end_ = '\0';    // what ends the tag at hand, before a }
  char quote_ = '\0';  // around the string at hand
};

// What plain() has for a ' that is not around a string.
constexpr char apostrophe = '\x01';

// The source with escapes resolved, one kind of quote around strings, and no blanks between one tag and the
// next.
std::string plain(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  Tags tags;
  for (std::size_t i = 0; i < source.size(); ++i) {
    char c = source[i];
    const char after = i + 1 < source.size() ? source[i + 1] : '\0';
    const bool is_escaped = c == '\\' && i + 1 < source.size();
    if (is_escaped) c = unescaped(source[++i]);
    const bool is_quote = !is_escaped && tags.take(c, after);
    text += is_quote ? '\'' : c == '\'' ? apostrophe : c;
    if (c != '}') continue;
    const std::size_t next = source.find_first_not_of(" \t\r\n", i + 1);
    if (next != std::string_view::npos && source[next] == '{') i = next - 1;
  }
  return text;
}

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool fits(const Signature& signature, const std::string& text) {
  const auto in_text = [&text](const char* part) { return part && holds(text, part); };
  const auto missing = [&text](const char* part) { return part && !holds(text, part); };
  return std::none_of(std::begin(signature.has), std::end(signature.has), missing) &&
         std::none_of(std::begin(signature.lacks), std::end(signature.lacks), in_text);
}

// Where the text of a string ends at the latest: at a quote or a tag of the template.
std::size_t text_end(const std::string& source, std::size_t begin) {
  for (std::size_t i = begin; i < source.size(); ++i) {
    const char next = i + 1 < source.size() ? source[i + 1] : '\0';
    const bool is_tag = (source[i] == '{' && (next == '{' || next == '%')) ||
                        (next == '}' && (source[i] == '}' || source[i] == '%'));
    if (is_tag || source[i] == '\'') return i;
  }
  return source.size();
}

// The prompt where the template writes it in one string with the markup around it. A quote or a tag in
// between means that it is put together from parts.
std::string prompt_in_markup(const ChatForm& form, std::string_view source) {
  const std::string_view before = form.system_before;
  const std::string_view after = form.system_after;
  if (before.empty() || after.empty()) return {};
  const std::string text = plain(source);
  std::size_t end = 0;
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, end)) {
    const std::size_t begin = at + before.size();
    end = text_end(text, begin);
    std::string_view prompt = std::string_view(text).substr(begin, end - begin);
    const bool is_markup = after.find_first_of("<[") != std::string_view::npos;
    if (!is_markup) prompt = prompt.substr(0, prompt.find('<'));  // where the next message's begins
    const std::size_t length = is_markup ? prompt.find(after) : prompt.rfind(after);
    if (length == std::string_view::npos || length == 0) continue;
    std::string found(prompt.substr(0, length));
    std::replace(found.begin(), found.end(), apostrophe, '\'');
    return found;
  }
  return {};
}

// The prompt where the template names it, "default_system_message = ", if what follows is one string.
std::string prompt_in_variable(std::string_view source, std::string_view name) {
  std::size_t at = source.find(name);
  if (at == std::string_view::npos) return {};
  at += name.size();
  const char quote = at < source.size() ? source[at] : '\0';
  if (quote != '\'' && quote != '"') return {};
  std::string prompt;
  for (++at; at < source.size() && source[at] != quote; ++at) {
    const bool escape = source[at] == '\\' && at + 1 < source.size();
    prompt += escape ? unescaped(source[++at]) : source[at];
  }
  const std::size_t next = source.find_first_not_of(" -", std::min(at + 1, source.size()));
  return next != std::string_view::npos && source[next] == '%' ? prompt : std::string();
}

bool begins_string(std::string_view text) { return text.starts_with('\'') || text.starts_with('"'); }

// The prompt where the template sets it before it looks for one among the messages, or else; LLaMA-Factory's
// do the one, Vicuna's the other. Under any condition it is not the default.
std::string prompt_set_at_first(std::string_view source) {
  constexpr std::string_view name = "set system_message = ";
  std::size_t at = source.find(name);
  while (at != std::string_view::npos && !begins_string(source.substr(at + name.size())))
    at = source.find(name, at + name.size());
  if (at == std::string_view::npos) return {};
  const std::string_view before = source.substr(0, at);
  const auto last_of = [before](std::string_view word) { return before.rfind(word) + 1; };  // 0: none
  const bool has_condition = last_of("if ") > std::max(last_of("else %}"), last_of("else -%}"));
  return has_condition ? std::string() : prompt_in_variable(source.substr(at), name);
}

// The prompt of templates like Llama 2's, where the switch for it is on: they are made from one that has
// such.
std::string prompt_switched_on(std::string_view source) {
  const std::size_t at = source.find("elif true == true");
  if (at == std::string_view::npos) return {};
  return prompt_in_variable(source.substr(at), "set system_message = ");
}

}  // namespace

const ChatForm* recognise_chat_form(std::string_view source) {
  const std::string text = plain(source);
  for (const Signature& signature : signatures) {
    if (fits(signature, text)) return find_chat_form(signature.form);
  }
  return nullptr;
}

std::string default_system_prompt(const ChatForm& form, std::string_view source) {
  std::string prompt;
  if (form.system_place == SystemPlace::own) {
    prompt = prompt_in_markup(form, source);
    if (prompt.empty()) prompt = prompt_in_variable(source, "default_system_message = ");
    if (prompt.empty()) prompt = prompt_set_at_first(source);
  } else if (form.system_place == SystemPlace::inside) {
    prompt = prompt_switched_on(source);
  }
  return prompt.empty() ? form.default_system : prompt;
}

}  // namespace runnel
