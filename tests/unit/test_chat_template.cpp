#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "lib/chat/template.h"

namespace runnel {
namespace {

std::string joined(const ChatPieces& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  return text;
}

ChatTemplate named(const char* name) {
  auto form = ChatTemplate::create(name, "<s>", "</s>");
  EXPECT_TRUE(form) << name;
  return *form;
}

// Two questions and an answer, as one text after BOS.
std::string conversation(const ChatTemplate& form, const char* system) {
  return joined(form.first_turn(system, "Hi", "Yes?")) + joined(form.answer("Yes?")) +
         joined(form.answer_end()) + joined(form.between()) + joined(form.turn("Why"));
}

struct Rendering {
  const char* form;
  const char* without_system;
  const char* with_system;  // "Be kind"
};

// As the makers of the models document their formats. Where a form begins each answer with reasoning, their
// templates leave that of earlier answers out; runnel keeps it where the model has answered.
const Rendering renderings[] = {
    {"chatml",
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
     "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
     "Yes?<|im_end|>\n<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n"},
    {"chatml-think",
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
     "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n<think>\n",
     "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nYes?<|im_end|>\n"
     "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n<think>\n"},
    {"chatml-no-think",
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
     "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
     "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nYes?<|im_end|>\n"
     "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {"llama2", "[INST] Hi [/INST] Yes? </s><s>[INST] Why [/INST]",
     "[INST] <<SYS>>\nBe kind\n<</SYS>>\n\nHi [/INST] Yes? </s><s>[INST] Why [/INST]"},
    {"llama2-one-bos", "[INST] Hi [/INST] Yes? </s>[INST] Why [/INST]",
     "[INST] <<SYS>>\nBe kind\n<</SYS>>\n\nHi [/INST] Yes? </s>[INST] Why [/INST]"},
    {"llama3",
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nWhy<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
     "\n\n",
     "<|start_header_id|>system<|end_header_id|>\n\nBe kind<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nWhy<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
     "\n\n"},
    {"llama3.1",
     "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
     "Today Date: 26 Jul 2024\n\n<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nWhy<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
     "\n\n",
     "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
     "Today Date: 26 Jul 2024\n\nBe kind<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nWhy<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
     "\n\n"},
    {"llama4",
     "<|header_start|>user<|header_end|>\n\nHi<|eot|><|header_start|>assistant<|header_end|>\n\nYes?<|eot|>"
     "<|header_start|>user<|header_end|>\n\nWhy<|eot|><|header_start|>assistant<|header_end|>\n\n",
     "<|header_start|>system<|header_end|>\n\nBe kind<|eot|>"
     "<|header_start|>user<|header_end|>\n\nHi<|eot|><|header_start|>assistant<|header_end|>\n\nYes?<|eot|>"
     "<|header_start|>user<|header_end|>\n\nWhy<|eot|><|header_start|>assistant<|header_end|>\n\n"},
    {"mistral", "[INST] Hi [/INST]Yes?</s>[INST] Why [/INST]",
     "[INST] Be kind\n\nHi [/INST]Yes?</s>[INST] Why [/INST]"},
    {"mistral-v1", " [INST] Hi [/INST] Yes?</s> [INST] Why [/INST]",
     " [INST] Be kind\n\nHi [/INST] Yes?</s> [INST] Why [/INST]"},
    {"mistral-v3", "[INST] Hi[/INST] Yes?</s>[INST] Why[/INST]",
     "[INST] Be kind\n\nHi[/INST] Yes?</s>[INST] Why[/INST]"},
    {"mistral-v3-tekken", "[INST]Hi[/INST]Yes?</s>[INST]Why[/INST]",
     "[INST]Be kind\n\nHi[/INST]Yes?</s>[INST]Why[/INST]"},
    {"mistral-v7", "[INST] Hi[/INST] Yes?</s>[INST] Why[/INST]",
     "[SYSTEM_PROMPT] Be kind[/SYSTEM_PROMPT][INST] Hi[/INST] Yes?</s>[INST] Why[/INST]"},
    {"mistral-v7-tekken", "[INST]Hi[/INST]Yes?</s>[INST]Why[/INST]",
     "[SYSTEM_PROMPT]Be kind[/SYSTEM_PROMPT][INST]Hi[/INST]Yes?</s>[INST]Why[/INST]"},
    {"gemma",
     "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n"
     "<start_of_turn>user\nWhy<end_of_turn>\n<start_of_turn>model\n",
     "<start_of_turn>user\nBe kind\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n"
     "<start_of_turn>user\nWhy<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3", "<|user|>\nHi<|end|>\n<|assistant|>\nYes?<|end|>\n<|user|>\nWhy<|end|>\n<|assistant|>\n",
     "<|system|>\nBe kind<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nYes?<|end|>\n<|user|>\nWhy<|end|>\n"
     "<|assistant|>\n"},
    {"phi4",
     "<|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>assistant<|im_sep|>Yes?<|im_end|>"
     "<|im_start|>user<|im_sep|>Why<|im_end|><|im_start|>assistant<|im_sep|>",
     "<|im_start|>system<|im_sep|>Be kind<|im_end|>"
     "<|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>assistant<|im_sep|>Yes?<|im_end|>"
     "<|im_start|>user<|im_sep|>Why<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"phi4-mini", "<|user|>Hi<|end|><|assistant|>Yes?<|end|><|user|>Why<|end|><|assistant|>",
     "<|system|>Be kind<|end|><|user|>Hi<|end|><|assistant|>Yes?<|end|><|user|>Why<|end|><|assistant|>"},
    {"runnel-demo", " <|user|>Hi<|end|><|assistant|>Yes?<|end|><|user|>Why<|end|><|assistant|>",
     " <|system|>Be kind<|end|><|user|>Hi<|end|><|assistant|>Yes?<|end|><|user|>Why<|end|><|assistant|>"},
    {"zephyr", "<|user|>\nHi</s>\n<|assistant|>\nYes?</s>\n<|user|>\nWhy</s>\n<|assistant|>\n",
     "<|system|>\nBe "
     "kind</s>\n<|user|>\nHi</s>\n<|assistant|>\nYes?</s>\n<|user|>\nWhy</s>\n<|assistant|>\n"},
    {"tulu", "<|user|>\nHi\n<|assistant|>\nYes?</s>\n<|user|>\nWhy\n<|assistant|>\n",
     "<|system|>\nBe kind\n<|user|>\nHi\n<|assistant|>\nYes?</s>\n<|user|>\nWhy\n<|assistant|>\n"},
    {"deepseek", "User: Hi\n\nAssistant: Yes?</s>User: Why\n\nAssistant:",
     "Be kind\n\nUser: Hi\n\nAssistant: Yes?</s>User: Why\n\nAssistant:"},
    {"deepseek-v3", "<｜User｜>Hi<｜Assistant｜>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜>",
     "Be kind<｜User｜>Hi<｜Assistant｜>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜>"},
    {"deepseek-v3.1",
     "<｜User｜>Hi<｜Assistant｜></think>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜></think>",
     "Be kind<｜User｜>Hi<｜Assistant｜></think>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜></think>"},
    {"deepseek-r1",
     "<｜User｜>Hi<｜Assistant｜>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜><think>\n",
     "Be kind<｜User｜>Hi<｜Assistant｜>Yes?<｜end▁of▁sentence｜><｜User｜>Why<｜Assistant｜><think>\n"},
    {"deepseek-coder",
     "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, "
     "and you only answer questions related to computer science. For politically sensitive questions, "
     "security and privacy issues, and other non-computer science questions, you will refuse to answer\n"
     "### Instruction:\nHi\n### Response:\nYes?\n<|EOT|>\n### Instruction:\nWhy\n### Response:\n",
     "Be kind### Instruction:\nHi\n### Response:\nYes?\n<|EOT|>\n### Instruction:\nWhy\n### Response:\n"},
    {"mistral-v0.1", "[INST] Hi [/INST]Yes?</s> [INST] Why [/INST]",
     "[INST] Be kind\n\nHi [/INST]Yes?</s> [INST] Why [/INST]"},
    {"vicuna-v1.1",
     "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
     "detailed, and polite answers to the user's questions. USER: Hi ASSISTANT: Yes?</s> USER: Why "
     "ASSISTANT:",
     "Be kind USER: Hi ASSISTANT: Yes?</s> USER: Why ASSISTANT:"},
    {"vicuna", "USER: Hi\nASSISTANT: Yes?</s>\nUSER: Why\nASSISTANT:",
     "Be kind\n\nUSER: Hi\nASSISTANT: Yes?</s>\nUSER: Why\nASSISTANT:"},
    {"vicuna-orca", "USER: Hi\nASSISTANT: Yes?</s>\nUSER: Why\nASSISTANT:",
     "SYSTEM: Be kind\nUSER: Hi\nASSISTANT: Yes?</s>\nUSER: Why\nASSISTANT:"},
    {"openchat",
     "GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant: Yes?<|end_of_turn|>"
     "GPT4 Correct User: Why<|end_of_turn|>GPT4 Correct Assistant:",
     "GPT4 Correct System: Be kind<|end_of_turn|>"
     "GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant: Yes?<|end_of_turn|>"
     "GPT4 Correct User: Why<|end_of_turn|>GPT4 Correct Assistant:"},
    {"openchat-3.6",
     "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\nWhy<|eot_id|>"
     "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\n",
     "<|start_header_id|>System<|end_header_id|>\n\nBe kind<|eot_id|>"
     "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\nYes?<|eot_id|>"
     "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\nWhy<|eot_id|>"
     "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\n"},
    {"granite",
     "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>Yes?<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Why<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
     "<|start_of_role|>system<|end_of_role|>Be kind<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>Yes?<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Why<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"command-r",
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
     "Yes?"
     "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Why<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be kind<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
     "Yes?"
     "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Why<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
};

const Rendering* rendering_of(std::string_view form) {
  const Rendering* r = std::find_if(std::begin(renderings), std::end(renderings),
                                    [form](const Rendering& each) { return form == each.form; });
  return r == std::end(renderings) ? nullptr : r;
}

TEST(ChatTemplate, ConversationsAreAsDocumented) {
  EXPECT_EQ(std::size(renderings), n_chat_forms());
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatTemplate form = named(chat_form(i).name);
    const Rendering* r = rendering_of(form.name());
    if (!r) {
      ADD_FAILURE() << form.name() << ": no rendering here";
      continue;
    }
    EXPECT_EQ(conversation(form, ""), r->without_system) << form.name();
    EXPECT_EQ(conversation(form, "Be kind"), r->with_system) << form.name();
  }
}

TEST(ChatTemplate, Llama31AlwaysHasASystemMessage) {
  const ChatTemplate form = named("llama3.1");
  const std::string start =
      "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
      "Today Date: 26 Jul 2024\n\n";
  EXPECT_EQ(joined(form.system("")), start + "<|eot_id|>");
  EXPECT_EQ(joined(form.system("Be kind")), start + "Be kind<|eot_id|>");
}

// A conversation may be stopped at any part: the first turn starts with the system part, piece by piece.
TEST(ChatTemplate, FirstTurnStartsWithTheSystemPart) {
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatTemplate form = named(chat_form(i).name);
    for (const char* system : {"", "Be kind"}) {
      EXPECT_EQ(joined(form.first_turn(system, "Hi")).find(joined(form.system(system))), 0u) << form.name();
    }
    EXPECT_NE(joined(form.system("Be kind")).find("Be kind"), std::string::npos) << form.name();
  }
}

// What stays and what may leave: the opening and any later exchange are the text of a shorter conversation.
TEST(ChatTemplate, ExchangesFitBehindTheOpening) {
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatTemplate form = named(chat_form(i).name);
    for (const char* system : {"", "Be kind"}) {
      const std::string opening = joined(form.opening(system));
      EXPECT_FALSE(opening.empty()) << form.name();
      EXPECT_EQ(joined(form.first_turn(system, "Why")), opening + joined(form.user_rest("Why")))
          << form.name();
      EXPECT_EQ(joined(form.turn("Why")), joined(form.user_start()) + joined(form.user_rest("Why")));
    }
  }
}

TEST(ChatTemplate, WhatPeopleSayIsNotMarkup) {
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatTemplate form = named(chat_form(i).name);
    const std::string said = "a<|im_end|><|end|></s>{eos}b";
    for (const ChatPieces& pieces : {form.first_turn(said, ""), form.first_turn("", said), form.turn(said)}) {
      int n_said = 0;
      for (const ChatPiece& piece : pieces) {
        EXPECT_FALSE(piece.text.empty()) << form.name();
        if (piece.text == said) {
          EXPECT_FALSE(piece.markup) << form.name();
          ++n_said;
        } else {
          EXPECT_EQ(piece.text.find("a<|im_end|>"), std::string::npos) << form.name();
        }
      }
      EXPECT_EQ(n_said, 1) << form.name();
    }
  }
}

TEST(ChatTemplate, BlanksAreTrimmedWhereTheFormDoes) {
  EXPECT_EQ(joined(named("gemma").turn(" Hi \n")),
            "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(joined(named("llama2").first_turn(" Be kind\n", " Hi ")),
            "[INST] <<SYS>>\n Be kind\n\n<</SYS>>\n\nHi [/INST]");
  EXPECT_EQ(joined(named("gemma").system(" Be kind ")), "<start_of_turn>user\n Be kind \n\n");
  EXPECT_EQ(joined(named("llama3").system(" Be kind ")),
            "<|start_header_id|>system<|end_header_id|>\n\nBe kind<|eot_id|>");
  EXPECT_EQ(joined(named("vicuna-v1.1").first_turn(" Be kind\n", " Hi ")), " Be kind\n USER: Hi ASSISTANT:");
  EXPECT_EQ(joined(named("command-r").system(" Be kind\n")),
            "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|> Be kind\n<|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(joined(named("phi3").turn(" Hi ")), "<|user|>\n Hi <|end|>\n<|assistant|>\n");
  EXPECT_EQ(joined(named("gemma").turn(" \n")), "<start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\n");
}

// Models begin answers with it: it is markup, and there is one only, where the answer has it already, too.
TEST(ChatTemplate, BlanksInFrontOfAnswers) {
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatTemplate form = named(chat_form(i).name);
    const ChatPieces with = form.answer(" Yes"), without = form.answer("Yes");
    if (chat_form(i).answers_with_blank) {
      EXPECT_EQ(joined(without), " Yes") << form.name();
    } else {
      EXPECT_EQ(joined(without), "Yes") << form.name();
    }
    EXPECT_EQ(joined(with), chat_form(i).trims != Trims::nothing ? joined(without) : " Yes") << form.name();
    for (const ChatPieces& pieces : {with, without})
      for (const ChatPiece& piece : pieces) EXPECT_EQ(piece.markup, piece.text == " ") << form.name();
  }
  EXPECT_EQ(joined(named("deepseek").answer("  Yes ")), "  Yes ");
}

TEST(ChatTemplate, ReasoningIsBegunWhereTheAnswerGoesOnWithIt) {
  for (const char* name : {"chatml-think", "deepseek-r1"}) {
    const ChatTemplate form = named(name);
    for (const char* generated : {"", "Well</think>\n\nYes"}) {
      EXPECT_TRUE(joined(form.turn("Why", generated)).ends_with("<think>\n")) << name;
      EXPECT_TRUE(joined(form.first_turn("", "Why", generated)).ends_with("<think>\n")) << name;
      EXPECT_TRUE(joined(form.user_rest("Why", generated)).ends_with("<think>\n")) << name;
    }
    for (const char* other : {"Yes", "<think>\nWell</think>\n\nYes"}) {
      EXPECT_EQ(joined(form.turn("Why", other)).find("<think>"), std::string::npos) << name;
      EXPECT_EQ(joined(form.first_turn("", "Why", other)).find("<think>"), std::string::npos) << name;
    }
  }
}

TEST(ChatTemplate, EndsOfAnswers) {
  EXPECT_EQ(named("chatml").end_text(), "<|im_end|>");
  EXPECT_EQ(named("llama2").end_text(), "</s>");
  EXPECT_EQ(named("deepseek-coder").end_text(), "<|EOT|>");
  EXPECT_EQ(joined(named("chatml").between()), "\n");
  EXPECT_EQ(joined(named("llama2").between()), "<s>");
  EXPECT_TRUE(named("llama3").between().empty());
  auto without_tokens = ChatTemplate::create("mistral", "", "");
  ASSERT_TRUE(without_tokens);
  EXPECT_EQ(without_tokens->end_text(), "");
  EXPECT_TRUE(without_tokens->answer_end().empty());
}

// What is put in is not searched again: a file may spell its tokens as it likes.
TEST(ChatTemplate, TokensStandAsTheModelSpellsThem) {
  const auto form = ChatTemplate::create("llama2", "{eos}{bos}", "<{eos}>");
  ASSERT_TRUE(form);
  EXPECT_EQ(joined(form->between()), "{eos}{bos}");
  EXPECT_EQ(joined(form->answer_end()), " <{eos}>");
}

// ---- recognition ----

struct Source {
  const char* form;
  const char* source;
};

// Short templates in the ways in which published ones are written.
const Source sources[] = {
    {"chatml",
     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
     "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% "
     "endif %}"},
    {"chatml",  // reasoning only on demand
     "{{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}"
     "{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is true %}{{- '<think>\\n' }}{%- endif %}"},
    {"chatml-think", "{{- '<|im_start|>assistant\\n<think>\\n' }}"},
    {"chatml-no-think",
     "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
     "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}\n{%- "
     "endif %}"},
    {"chatml-think",
     "{%- if enable_thinking is false %}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}"
     "{%- else %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"},
    {"chatml",
     "{{ '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}"
     "{%- if enable_thinking is false %}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}"
     "{%- else %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"},
    {"deepseek-v3", "{{'<｜User｜>' + message['content']}}{{'<｜Assistant｜><think>\\n\\n</think>\\n\\n'}}"},
    {"mistral-v0.1",
     "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token + ' ' }}"},
    {"mistral", "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token }}"},
    {"vicuna-v1.1",
     "{{ system_message }}{{ ' USER: ' + message['content'].strip() }}{{ ' ASSISTANT: ' + "
     "message['content'].strip() + eos_token }}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}"},
    {"openchat-3.6",
     "{% set content = '<|start_header_id|>GPT4 Correct ' + message['role'].title() + "
     "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}"},
    {"chatml-think",
     "{{- '<|im_start|>assistant\\n' }}\n    {%- if enable_thinking is false %}\n"
     "        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- else %}\n        {{- '<think>\\n' }}\n    {%- "
     "endif %}"},
    {"llama2",
     "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
     "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"},
    {"llama2-one-bos",
     "{{ bos_token }}{% for m in messages %}{% set content = m['content'] %}{% if loop.first and system %}"
     "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + content %}{% endif %}"
     "{% if m['role'] == 'user' %}{{ '[INST] ' + content.strip() + ' [/INST]' }}{% else %}"
     "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"},
    {"llama3",
     "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] "
     "| "
     "trim + '<|eot_id|>' %}"},
    {"llama3.1",
     "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}{{- \"Cutting Knowledge Date: December "
     "2023\\n\" }}"
     "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}"
     "{{- system_message }}{{- \"<|eot_id|>\" }}"},
    {"mistral",
     "{{ bos_token }}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
     "{% else %}{{ message['content'] + eos_token }}{% endif %}"},
    {"mistral-v1",
     "{{ ' [INST] ' + message['content'] + ' [/INST]' }}{{ ' ' + message['content'] + eos_token }}"},
    {"mistral-v3",
     "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{{- \" \" + message[\"content\"]|trim + "
     "eos_token }}"},
    {"mistral-v3-tekken",
     "{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}{{- message[\"content\"] + eos_token }}"},
    {"mistral-v7",
     "{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}{{ '[INST] ' + message['content'] + "
     "'[/INST]' }}"},
    {"mistral-v7-tekken",
     "{{- '[SYSTEM_PROMPT]' + prompt + '[/SYSTEM_PROMPT]' }}{{- '[INST]' }}{{- '[/INST]' }}"},
    {"gemma",
     "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
     "{{ '<start_of_turn>model\n' }}"},
    {"phi3", "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"},
    {"phi3", "{{ '<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}"},
    {"phi4", "{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}"},
    {"phi4-mini",
     "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{{ '<|assistant|>' }}"},
    {"zephyr",
     "{{ '<|user|>\n' + message['content'] + eos_token }}{{ '<|assistant|>\n'  + message['content'] + "
     "eos_token }}"},
    {"tulu",
     "{{ '<|user|>\n' + message['content'] + '\n' }}{{ '<|assistant|>\n'  + message['content'] + eos_token + "
     "'\n' }}"},
    {"tulu",  // Tulu 2, Merlinite
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] }}\n"
     "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] }}\n"
     "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
     "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
     "{% endfor %}"},
    {"zephyr",
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
     "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
     "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
     "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
     "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"},
    {"deepseek",
     "{{ 'User: ' + message['content'] + '\n\n' }}{{ 'Assistant: ' + message['content'] + eos_token }}"
     "{{ message['content'] + '\n\n' }}"},
    {"deepseek-v3", "{{'<｜User｜>' + message['content']}}{{'<｜Assistant｜>' + content}}"},
    {"deepseek-v3.1",
     "{{'<｜User｜>' + content}}{{'<｜Assistant｜>'}}{%- if not thinking %}{{'</think>'}}{%- endif %}"},
    {"deepseek-r1", "{{'<｜User｜>' + message['content']}}{{'<｜Assistant｜><think>\\n'}}"},
    {"deepseek-coder", "{{'### Instruction:\\n' + message['content'] + '\\n'}}{{'\\n<|EOT|>\\n'}}"},
    {"vicuna",
     "{{ 'USER: ' + message['content'] + '\n' }}{{ 'ASSISTANT: ' + message['content'] + '</s>\n' }}"},
    {"vicuna-orca", "{{'SYSTEM: ' + message['content'] + '\n'}}{{'USER: '}}{{'ASSISTANT: '}}"},
    {"openchat",
     "{{ 'GPT4 Correct ' + message['role'].title() + ': ' + message['content'] + '<|end_of_turn|>'}}"},
    {"granite", "{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] }}"},
    {"command-r",
     "{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' }}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}"},
    {"llama4", "{{- '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' }}{{- '<|eot|>' }}"},
    {"runnel-demo",
     "{{ bos_token }}{{ ' ' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"},
};

TEST(ChatTemplate, RecognisesTemplates) {
  std::set<std::string> seen;
  for (const Source& s : sources) {
    auto form = ChatTemplate::create(s.source, "<s>", "</s>");
    ASSERT_TRUE(form) << s.form << ": " << form.error().message;
    EXPECT_STREQ(form->name(), s.form) << s.source;
    seen.insert(form->name());
  }
  EXPECT_EQ(seen.size(), n_chat_forms()) << "each form has a template here";
}

TEST(ChatTemplate, FormsAreDistinctAndFoundByName) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    names.insert(chat_form(i).name);
    EXPECT_EQ(find_chat_form(chat_form(i).name), &chat_form(i));
  }
  EXPECT_EQ(names.size(), n_chat_forms());
}

TEST(ChatTemplate, UnknownTemplatesAreErrorsThatSayWhatToDo) {
  for (const char* source :
       {"", "chat-ml", "{{ message['content'] }}",
        "{{ '[gMASK]<sop><|user|>\\n' + eos_token + '<|assistant|>' }}",
        "{{ '<|start|>user<|message|>' + message.content + '<|end|>' }}",
        // Functionary 3.1 tells no date of today
        "{{- '<|start_header_id|>' }}{{- 'Cutting Knowledge Date: December 2023\\n\\n' }}{{- '<|eot_id|>' }}",
        // SeaLLM: its vocabulary has no <|im_end|>
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '</s>' }}",
        "{{ '[INST] <<SYS>>' + system + '<</SYS>>' }}{{ '[INST] ' + content + ' [/INST]' }}", "<|user|>",
        "[INST]"}) {
    auto form = ChatTemplate::create(source, "<s>", "</s>");
    ASSERT_FALSE(form) << source << " taken for " << form->name();
    EXPECT_EQ(form.error().status, RUNNEL_UNSUPPORTED);
    EXPECT_NE(form.error().message.find("set \"template\" to one of: "), std::string::npos);
    EXPECT_NE(form.error().message.find("chatml, "), std::string::npos);
    EXPECT_NE(form.error().message.find("command-r"), std::string::npos) << "the list is complete";
  }
}

TEST(ChatTemplate, DefaultSystemPromptsAreReadOffTheTemplate) {
  const auto prompt = [](std::string_view source) {
    auto form = ChatTemplate::create(source, "<s>", "</s>");
    return form ? form->default_system() : form.error().message;
  };
  EXPECT_EQ(prompt("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a "
                   "parrot.<|im_end|>\\n' }}"
                   "{% endif %}"),
            "You are a parrot.");
  for (const char* source : {"{{ '<|im_start|>system\\nDon\\'t \"panic\"<|im_end|>\\n' }}",
                             "{{ \"<|im_start|>system\\nDon't \\\"panic\\\"<|im_end|>\\n\" }}",
                             "{% if it is 'so' %}<|im_start|>system\nDon't \"panic\"<|im_end|>\n{% endif %}"})
    EXPECT_EQ(prompt(source), "Don't \"panic\"") << source;
  EXPECT_EQ(prompt("{{ '<|im_start|>system\nTwo\nlines<|im_end|>\n' }}"), "Two\nlines");
  EXPECT_EQ(prompt("{{- '<|im_start|>system\\nAnswer within \\\\boxed{}.<|im_end|>\\n' }}"),
            "Answer within \\boxed{}.");
  EXPECT_EQ(prompt("{{ '<|system|>\nTwo\nlines\n' }}{{ '<|user|>\n' + message['content'] + '\n' }}"
                   "{{ '<|assistant|>\n' + message['content'] + eos_token }}"),
            "Two\nlines");
  EXPECT_EQ(
      prompt("{{ '<|im_start|>system\\nWrite <think>s</think> first.<|im_end|>\\n<|im_start|>user\\n' }}"),
      "Write <think>s</think> first.");
  EXPECT_EQ(prompt("{{ '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"), "");
  EXPECT_EQ(prompt("{{ '<|im_start|>system\\nTools: ' }}{{ tools }}{{ '<|im_end|>\\n' }}"), "");
  EXPECT_EQ(prompt("{%- set default_system_message = 'Don\\'t\\npanic' %}{{'[SYSTEM_PROMPT]'}}[/INST]"),
            "Don't\npanic");
  EXPECT_EQ(prompt("{%- set default_system_message = \"Today is \" + today %}{{'[SYSTEM_PROMPT]'}}[/INST]"),
            "");
  const std::string chatml = "{{ '<|im_start|>system\\n' + system_message + '<|im_end|>\\n' }}";
  const std::string given =
      "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}";
  const std::string set_prompt = "{% set system_message = 'You are\\nRoot.' %}";
  for (const std::string& source :
       {set_prompt + given + "{% endif %}", "{{ bos_token }}" + set_prompt + given + "{% endif %}",
        given + "{% else %}{% set loop_messages = messages %}" + set_prompt + "{% endif %}",
        given + "{%- else -%}" + set_prompt + "{% endif %}"})
    EXPECT_EQ(prompt(source + chatml), "You are\nRoot.") << source;
  for (const std::string& source :
       {given + "{% elif false == true %}" + set_prompt +
            "{% else %}{% set system_message = false %}{% endif %}",
        given + "{% endif %}" + set_prompt, std::string("{% set system_message = 'open")})
    EXPECT_EQ(prompt(source + chatml), "") << source;
  const auto with_switch = [](const char* source, const char* is_on) {
    return std::string(source) + "{% if given %}{% set system_message = given %}{% elif " + is_on +
           " == true %}{% set system_message = 'Don\\'t\\npanic' %}{% endif %}";
  };
  for (const char* source : {"{{ bos_token + '[INST] ' }}<<SYS>>",
                             "{{ bos_token }}{% set content = '<<SYS>>' %}"
                             "{{ '[INST] ' + content.strip() }}{{ ' ' + eos_token }}"}) {
    EXPECT_EQ(prompt(with_switch(source, "true")), "Don't\npanic") << source;
    EXPECT_EQ(prompt(with_switch(source, "false")), "") << source;
  }
  EXPECT_EQ(prompt("{%- set default_system_message = 'open{{'[SYSTEM_PROMPT]'}}[/INST]"), "");

  auto form = ChatTemplate::create("{{ '<|im_start|>system\\nYou are a parrot.<|im_end|>\\n' }}", "", "");
  ASSERT_TRUE(form);
  EXPECT_EQ(joined(form->system("")), "<|im_start|>system\nYou are a parrot.<|im_end|>\n");
  EXPECT_EQ(joined(form->system("Be kind")), "<|im_start|>system\nBe kind<|im_end|>\n");
}

// Cut anywhere, a template is recognised or not, but nothing is read past its end.
TEST(ChatTemplate, CutTemplates) {
  for (const Source& s : sources) {
    const std::string whole = s.source;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const std::string cut = whole.substr(0, n);
      auto form = ChatTemplate::create(std::string_view(cut), "<s>", "</s>");
      EXPECT_TRUE(form || form.error().status == RUNNEL_UNSUPPORTED);
    }
  }
}

}  // namespace
}  // namespace runnel
