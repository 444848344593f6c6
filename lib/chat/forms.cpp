#include <algorithm>
#include <iterator>

#include "lib/chat/form.h"

namespace runnel {
namespace {

constexpr auto always = SystemPlace::always;
constexpr auto inside = SystemPlace::inside;

// Sources: the templates that the models' authors publish with their weights (tokenizer_config.json), and the
// prompt format pages of Meta (Llama 2, 3), Mistral AI (v1 to v7), Google (Gemma), Microsoft (Phi), DeepSeek,
// IBM and Cohere.
constexpr ChatForm forms[] = {
    {.name = "chatml",  // Qwen, SmolLM2, Yi, Hermes...
     .system_before = "<|im_start|>system\n",
     .system_after = "<|im_end|>\n",
     .user_before = "<|im_start|>user\n",
     .user_after = "<|im_end|>\n",
     .answer_before = "<|im_start|>assistant\n",
     .answer_end = "<|im_end|>",
     .between = "\n"},
    {.name = "chatml-think",  // QwQ, Qwen3.5: the answer starts with reasoning
     .system_before = "<|im_start|>system\n",
     .system_after = "<|im_end|>\n",
     .user_before = "<|im_start|>user\n",
     .user_after = "<|im_end|>\n",
     .answer_before = "<|im_start|>assistant\n",
     .reasoning = "<think>\n",
     .answer_end = "<|im_end|>",
     .between = "\n"},
    {.name = "chatml-no-think",  // Jan-nano: the answer starts behind reasoning that there is none of
     .system_before = "<|im_start|>system\n",
     .system_after = "<|im_end|>\n",
     .user_before = "<|im_start|>user\n",
     .user_after = "<|im_end|>\n",
     .answer_before = "<|im_start|>assistant\n",
     .reasoning = "<think>\n\n</think>\n\n",
     .answer_end = "<|im_end|>",
     .between = "\n"},
    {.name = "llama2",
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .answer_end = " {eos}",
     .between = "{bos}",
     .system_place = inside,
     .answers_with_blank = true,
     .trims = Trims::messages},
    {.name = "llama2-one-bos",  // Vigogne
     .system_before = "<<SYS>>\n",
     .system_after = "\n<</SYS>>\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .answer_end = " {eos}",
     .system_place = inside,
     .answers_with_blank = true,
     .trims = Trims::messages},
    {.name = "llama3",
     .system_before = "<|start_header_id|>system<|end_header_id|>\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_after = "<|eot_id|>",
     .answer_before = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .answer_end = "<|eot_id|>",
     .trims = Trims::all},
    {.name = "llama3.1",  // also 3.2 and 3.3; the date is the one their templates fall back on
     .system_before = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
                      "Today Date: 26 Jul 2024\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_after = "<|eot_id|>",
     .answer_before = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .answer_end = "<|eot_id|>",
     .system_place = always,
     .trims = Trims::all},
    {.name = "llama4",
     .system_before = "<|header_start|>system<|header_end|>\n\n",
     .system_after = "<|eot|>",
     .user_before = "<|header_start|>user<|header_end|>\n\n",
     .user_after = "<|eot|>",
     .answer_before = "<|header_start|>assistant<|header_end|>\n\n",
     .answer_end = "<|eot|>",
     .trims = Trims::all},
    {.name = "mistral-v0.1",
     .system_after = "\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .answer_end = "{eos}",
     .between = " ",
     .system_place = inside},
    {.name = "mistral",  // Mistral 7B v0.2 and Mixtral as first published
     .system_after = "\n\n",
     .user_before = "[INST] ",
     .user_after = " [/INST]",
     .answer_end = "{eos}",
     .system_place = inside},
    {.name = "mistral-v1",
     .system_after = "\n\n",
     .user_before = " [INST] ",
     .user_after = " [/INST]",
     .answer_end = "{eos}",
     .system_place = inside,
     .answers_with_blank = true},
    {.name = "mistral-v3",
     .system_after = "\n\n",
     .user_before = "[INST] ",
     .user_after = "[/INST]",
     .answer_end = "{eos}",
     .system_place = inside,
     .answers_with_blank = true},
    {.name = "mistral-v3-tekken",  // Nemo
     .system_after = "\n\n",
     .user_before = "[INST]",
     .user_after = "[/INST]",
     .answer_end = "{eos}",
     .system_place = inside},
    {.name = "mistral-v7",
     .system_before = "[SYSTEM_PROMPT] ",
     .system_after = "[/SYSTEM_PROMPT]",
     .user_before = "[INST] ",
     .user_after = "[/INST]",
     .answer_end = "{eos}",
     .answers_with_blank = true},
    {.name = "mistral-v7-tekken",  // Mistral Small 3
     .system_before = "[SYSTEM_PROMPT]",
     .system_after = "[/SYSTEM_PROMPT]",
     .user_before = "[INST]",
     .user_after = "[/INST]",
     .answer_end = "{eos}"},
    {.name = "gemma",
     .system_after = "\n\n",
     .user_before = "<start_of_turn>user\n",
     .user_after = "<end_of_turn>\n",
     .answer_before = "<start_of_turn>model\n",
     .answer_end = "<end_of_turn>",
     .between = "\n",
     .system_place = inside,
     .trims = Trims::messages},
    {.name = "phi3",
     .system_before = "<|system|>\n",
     .system_after = "<|end|>\n",
     .user_before = "<|user|>\n",
     .user_after = "<|end|>\n",
     .answer_before = "<|assistant|>\n",
     .answer_end = "<|end|>",
     .between = "\n"},
    {.name = "phi4",
     .system_before = "<|im_start|>system<|im_sep|>",
     .system_after = "<|im_end|>",
     .user_before = "<|im_start|>user<|im_sep|>",
     .user_after = "<|im_end|>",
     .answer_before = "<|im_start|>assistant<|im_sep|>",
     .answer_end = "<|im_end|>"},
    {.name = "phi4-mini",
     .system_before = "<|system|>",
     .system_after = "<|end|>",
     .user_before = "<|user|>",
     .user_after = "<|end|>",
     .answer_before = "<|assistant|>",
     .answer_end = "<|end|>"},
    {.name = "runnel-demo",
     .start = " ",
     .system_before = "<|system|>",
     .system_after = "<|end|>",
     .user_before = "<|user|>",
     .user_after = "<|end|>",
     .answer_before = "<|assistant|>",
     .answer_end = "<|end|>"},
    {.name = "zephyr",  // also TinyLlama, StableLM Zephyr
     .system_before = "<|system|>\n",
     .system_after = "{eos}\n",
     .user_before = "<|user|>\n",
     .user_after = "{eos}\n",
     .answer_before = "<|assistant|>\n",
     .answer_end = "{eos}",
     .between = "\n"},
    {.name = "tulu",  // also OLMo 2, Falcon 3
     .system_before = "<|system|>\n",
     .system_after = "\n",
     .user_before = "<|user|>\n",
     .user_after = "\n",
     .answer_before = "<|assistant|>\n",
     .answer_end = "{eos}",
     .between = "\n"},
    {.name = "deepseek",  // LLM and V2
     .system_after = "\n\n",
     .user_before = "User: ",
     .user_after = "\n\n",
     .answer_before = "Assistant:",
     .answer_end = "{eos}",
     .answers_with_blank = true},
    {.name = "deepseek-v3",  // also V2.5
     .user_before = "<｜User｜>",
     .answer_before = "<｜Assistant｜>",
     .answer_end = "<｜end▁of▁sentence｜>"},
    {.name = "deepseek-v3.1",  // without reasoning
     .user_before = "<｜User｜>",
     .answer_before = "<｜Assistant｜></think>",
     .answer_end = "<｜end▁of▁sentence｜>"},
    {.name = "deepseek-r1",  // the answer starts with reasoning
     .user_before = "<｜User｜>",
     .answer_before = "<｜Assistant｜>",
     .reasoning = "<think>\n",
     .answer_end = "<｜end▁of▁sentence｜>"},
    {.name = "deepseek-coder",
     .user_before = "### Instruction:\n",
     .user_after = "\n",
     .answer_before = "### Response:\n",
     .answer_end = "\n<|EOT|>",
     .between = "\n",
     .default_system =
         "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek "
         "Company, and you only answer questions related to computer science. For politically sensitive "
         "questions, security and privacy issues, and other non-computer science questions, you will refuse "
         "to answer\n"},
    {.name = "vicuna",
     .system_after = "\n\n",
     .user_before = "USER: ",
     .user_after = "\n",
     .answer_before = "ASSISTANT:",
     .answer_end = "</s>",
     .between = "\n",
     .answers_with_blank = true},
    {.name = "vicuna-v1.1",  // as its authors wrote it, on one line
     .user_before = " USER: ",
     .answer_before = " ASSISTANT:",
     .answer_end = "</s>",
     .default_system =
         "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
         "helpful, detailed, and polite answers to the user's questions.",
     .answers_with_blank = true,
     .trims = Trims::messages},
    {.name = "vicuna-orca",
     .system_before = "SYSTEM: ",
     .system_after = "\n",
     .user_before = "USER: ",
     .user_after = "\n",
     .answer_before = "ASSISTANT:",
     .answer_end = "</s>",
     .between = "\n",
     .answers_with_blank = true},
    {.name = "openchat",
     .system_before = "GPT4 Correct System: ",
     .system_after = "<|end_of_turn|>",
     .user_before = "GPT4 Correct User: ",
     .user_after = "<|end_of_turn|>",
     .answer_before = "GPT4 Correct Assistant:",
     .answer_end = "<|end_of_turn|>",
     .answers_with_blank = true},
    {.name = "openchat-3.6",
     .system_before = "<|start_header_id|>System<|end_header_id|>\n\n",
     .system_after = "<|eot_id|>",
     .user_before = "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\n",
     .user_after = "<|eot_id|>",
     .answer_before = "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\n",
     .answer_end = "<|eot_id|>",
     .trims = Trims::all},
    {.name = "granite",
     .system_before = "<|start_of_role|>system<|end_of_role|>",
     .system_after = "<|end_of_text|>\n",
     .user_before = "<|start_of_role|>user<|end_of_role|>",
     .user_after = "<|end_of_text|>\n",
     .answer_before = "<|start_of_role|>assistant<|end_of_role|>",
     .answer_end = "<|end_of_text|>",
     .between = "\n"},
    {.name = "command-r",
     .system_before = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
     .system_after = "<|END_OF_TURN_TOKEN|>",
     .user_before = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>",
     .user_after = "<|END_OF_TURN_TOKEN|>",
     .answer_before = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     .answer_end = "<|END_OF_TURN_TOKEN|>",
     .trims = Trims::messages},
};

}  // namespace

std::size_t n_chat_forms() { return std::size(forms); }

const ChatForm& chat_form(std::size_t i) { return forms[i]; }

const ChatForm* find_chat_form(std::string_view name) {
  const ChatForm* form =
      std::find_if(std::begin(forms), std::end(forms), [name](const ChatForm& f) { return name == f.name; });
  return form == std::end(forms) ? nullptr : form;
}

const char* chat_form_name(std::size_t i) { return i < n_chat_forms() ? chat_form(i).name : nullptr; }

std::string chat_form_names() {
  std::string names;
  for (const ChatForm& form : forms) names += (names.empty() ? "" : ", ") + std::string(form.name);
  return names;
}

}  // namespace runnel
