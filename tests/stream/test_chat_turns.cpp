// A chat whose window has long been full: what the model sees is the system prompt and whole exchanges, read
// back from its tokens, and its logits are those of the definition (slow_decoder.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "lib/chat/chat.h"
#include "lib/io/gguf_writer.h"
#include "tests/stream/models.h"
#include "tests/stream/slow_decoder.h"
#include "tests/support/append.h"
#include "tests/support/numbers.h"

namespace {

using namespace runnel;
using namespace runnel::test;
using Tokens = std::vector<Token>;

const char* const script[] = {
    "I want to book a table for two in San Jose.",
    "At 7 pm please.",
    "Can you find me a cheap hotel in Paris?",
    "No, thank you.",
    "Is there a cinema near it? I would like to see a comedy, in the evening if that is possible.",
    "",
    "Yes",
    "What will the weather be like on the 8th?",
    "Remind me to call my mother. And play some jazz, but not too loud: I have to work.",
};

// What users say in the dialogues of ../shared/text/sgd_test.jsonl: their texts hold no escapes to speak of.
std::vector<std::string> dialogue_lines(std::size_t n) {
  const std::string before = "\"speaker\": \"USER\", \"text\": \"";
  std::vector<std::string> lines;
  std::ifstream in(shared("text/sgd_test.jsonl"));
  for (std::string line; std::getline(in, line);)
    for (std::size_t at = line.find(before); at != std::string::npos && lines.size() < n;) {
      at += before.size();
      const std::size_t end = line.find('"', at);
      lines.push_back(line.substr(at, end - at));
      at = line.find(before, end);
    }
  return lines;
}

// At the border of prefix and window there may be a blank more or less; and to this model U+2581 is a blank.
std::string without_blanks(std::string text) {
  for (std::size_t at; (at = text.find("\u2581")) != std::string::npos;) text.erase(at, 3);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

std::string joined(const ChatPieces& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  return text;
}

// A conversation and, beside it, its text exchange by exchange.
class Talk {
 public:
  Talk(const std::shared_ptr<const Model>& model, const Settings& settings, const std::string& system)
      : model_(model),
        template_(*ChatTemplate::create(settings.chat_template.empty()
                                            ? *model->file().get_string("tokenizer.chat_template", "")
                                            : settings.chat_template,
                                        "<s>", "</s>")),
        system_(system),
        session(std::move(*Session::open(model, settings))),
        chat(*Chat::open(*session, settings)) {
    EXPECT_TRUE(chat.start(system));
  }

  void say(const std::string& text, std::int64_t n_tokens) {
    if (!exchanges_.empty())
      exchanges_.back() +=
          rest_of_answer_end() + joined(template_.between()) + joined(template_.user_start());
    const std::int64_t before = session->stats().generated_tokens;
    auto said = chat.say(text, n_tokens, nullptr, nullptr);
    ASSERT_TRUE(said) << said.error().message;
    exchanges_.push_back(joined(template_.user_rest(text)));
    const std::int64_t n_answer = session->stats().generated_tokens - before;
    for (std::int64_t at = session->position() - n_answer; at < session->position(); ++at)
      model_->tokenizer()->decode(session->token(at), true, exchanges_.back());
  }

  void undo() {
    ASSERT_TRUE(chat.undo());
    exchanges_.pop_back();
    if (!exchanges_.empty()) {
      const std::size_t n_end =
          (joined(template_.answer_end()) + joined(template_.between()) + joined(template_.user_start()))
              .size();
      exchanges_.back().resize(exchanges_.back().size() - n_end);
    }
  }

  void pin(const std::string& text) {
    ASSERT_TRUE(chat.pin(text));
    system_ += "\n" + text;
  }

  // Without blanks and line breaks, which some forms trim, and without control tokens: in a form that is not
  // its own the model answers with some.
  std::string visible_text() const {
    std::string text;
    for (const Token token : session->visible()) model_->tokenizer()->decode(token, false, text);
    std::erase(text, '\n');
    return without_blanks(text);
  }

  // How many exchanges the model sees, whole and behind the system prompt; -1 when that is not what it sees.
  int n_whole() const {
    const std::vector<Token> visible = session->visible();
    std::string text;
    for (const Token token : visible) model_->tokenizer()->decode(token, true, text);
    std::string expected;
    for (std::size_t n = 0; n <= exchanges_.size(); ++n) {
      if (n > 0) expected.insert(0, exchanges_[exchanges_.size() - n]);
      if (without_blanks("<s>" + joined(template_.opening(system_)) + expected) == without_blanks(text))
        return static_cast<int>(n);
    }
    seen = text;
    return -1;
  }
  mutable std::string seen;  // for messages

 private:
  // Without the blanks in front of it with which the answer ends already.
  std::string rest_of_answer_end() const {
    const std::string end = joined(template_.answer_end());
    std::size_t n = std::min(end.find_first_not_of(" \n"), end.size());
    while (!exchanges_.back().ends_with(end.substr(0, n))) --n;
    return end.substr(n);
  }

  std::shared_ptr<const Model> model_;
  ChatTemplate template_;
  std::string system_;
  std::vector<std::string> exchanges_;

 public:
  std::unique_ptr<Session> session;
  Chat chat;
};

Settings greedy(std::int32_t window) {
  Settings settings;
  settings.window = window;
  settings.temperature = 0;
  settings.threads = 2;
  return settings;
}

constexpr const char* system_prompt = "You are a helpful assistant who books tables and rooms.";

void talk_through(const std::vector<std::string>& lines, std::int32_t window) {
  Talk talk(open_file(demo_model()), greedy(window), system_prompt);
  int most = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    talk.say(lines[i], 12);
    const int n = talk.n_whole();
    ASSERT_GE(n, 1) << "after turn " << i + 1 << ": " << talk.seen;
    EXPECT_EQ(talk.session->n_turns_seen(), n);
    EXPECT_EQ(talk.session->stats().unseen_tokens, 0);
    most = std::max(most, n);
  }
  const std::int64_t n_left = talk.session->position() - talk.session->cache().n_seen();
  std::printf("%zu turns, %lld tokens, %lld of them left; up to %d exchanges seen\n", lines.size(),
              static_cast<long long>(talk.session->position()), static_cast<long long>(n_left), most);
  EXPECT_GT(n_left, 20 * window / 2);
  EXPECT_GT(most, 2);
}

TEST(ChatTurns, a_script_keeps_whole_exchanges) {
  std::vector<std::string> lines;
  for (int i = 0; i < 10; ++i) lines.insert(lines.end(), std::begin(script), std::end(script));
  talk_through(lines, 124);
}

TEST(ChatTurns, five_hundred_turns_keep_whole_exchanges) {
  RUNNEL_NEEDS_SHARED("text/sgd_test.jsonl");
  const std::vector<std::string> lines = dialogue_lines(500);
  ASSERT_EQ(lines.size(), 500u);
  talk_through(lines, 196);
}

// Also forms that put the system prompt into the first message; their markup is plain text to this model.
TEST(ChatTurns, every_form_stays_well_formed) {
  std::int64_t n_left = 0;
  const auto model = open_file(demo_model());
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    for (const char* system : {"", "Be kind."}) {
      Settings settings = greedy(176);
      settings.chat_template = chat_form(i).name;
      Talk talk(model, settings, system);
      for (const char* line : {"Hello!", "Find me a film.", "\nwith a line break", "Yes"}) {
        talk.say(line, 2);
        ASSERT_GE(talk.n_whole(), 1) << chat_form(i).name << ": " << talk.seen;
      }
      n_left += talk.session->position() - talk.session->cache().n_seen();
    }
  }
  EXPECT_GT(n_left, 1000);
}

TEST(ChatTurns, logits_are_those_of_the_definition) {
  const auto model = open_file(demo_model_f32());
  Settings settings = greedy(46);
  settings.cache = CacheType::f32;
  Talk talk(model, settings, "Be kind and brief.");
  std::unique_ptr<SlowDecoder> slow;
  double worst = 0;
  std::int64_t n_read = 0;
  for (const char* line : script) {
    talk.say(line, 6);
    Session& session = *talk.session;
    if (!slow) {
      const CacheSize& size = session.cache().size();
      slow = std::make_unique<SlowDecoder>(*model, static_cast<std::size_t>(size.n_prefix),
                                           static_cast<std::size_t>(size.window), true);
    }
    std::vector<double> expected;
    for (; n_read < session.position(); ++n_read)
      expected = slow->read(session.token(n_read), session.turns().count_in(n_read, n_read + 1) == 1);
    EXPECT_EQ(session.visible(), slow->visible());
    worst = std::max(worst, nmse(session.logits(), expected.data(), expected.size()));
  }
  EXPECT_GT(n_read, 4 * 50);
  std::printf("largest NMSE: %.2g\n", worst);
  EXPECT_LT(worst, 1e-9);
}

// To the token in the model's own form, where the answer's tokens are those of its text.
TEST(ChatTurns, what_is_added_is_as_if_it_had_been_said) {
  const auto model = open_file(demo_model());
  for (std::size_t i = 0; i <= n_chat_forms(); ++i) {
    for (const char* system : {"", "Be kind."}) {
      if (i < n_chat_forms() && (*system == '\0' || *chat_form(i).reasoning)) continue;
      Settings settings = greedy(300);
      if (i < n_chat_forms()) settings.chat_template = chat_form(i).name;
      Talk said(model, settings, system), added(model, settings, system);
      for (int turn = 0; turn < 3; ++turn) {
        said.say(script[turn], 12);
        const Message& last = said.chat.transcript().messages().back();
        const std::string answer = last.speaker == RUNNEL_MODEL ? last.text : "";
        const Result<void> read = added.chat.add(script[turn], answer);
        ASSERT_TRUE(read) << read.error().message;
        ASSERT_EQ(added.visible_text(), said.visible_text()) << settings.chat_template;
      }
      if (i < n_chat_forms()) continue;
      EXPECT_EQ(added.session->visible(), said.session->visible());
      EXPECT_EQ(added.session->turns().count_in(0, 1000), 3);
      EXPECT_EQ(added.chat.transcript().messages().size(), 6u);
      EXPECT_EQ(added.session->stats().generated_tokens, 0);
      const std::string answer = said.chat.transcript().messages().back().text;
      ASSERT_TRUE(added.chat.again(12, nullptr, nullptr));
      EXPECT_EQ(added.chat.transcript().messages().back().text, answer);
      EXPECT_TRUE(added.chat.undo());
      said.undo();
      EXPECT_EQ(added.session->visible(), said.session->visible());
    }
  }
}

// In answers from elsewhere there is none, unless they tell where it ends.
TEST(ChatTurns, an_added_answer_begins_with_reasoning_where_it_goes_on_with_it) {
  Settings settings = greedy(300);
  settings.chat_template = "chatml-think";
  Talk talk(open_file(demo_model()), settings, "");
  for (const char* answer : {"Yes.", "Well.</think>No.", "So."}) ASSERT_TRUE(talk.chat.add("Why?", answer));
  const std::string start = "<|im_start|>userWhy?<|im_end|><|im_start|>assistant", end = "<|im_end|>";
  EXPECT_EQ(talk.visible_text(),
            start + "Yes." + end + start + "<think>Well.</think>No." + end + start + "So.");
}

TEST(ChatTurns, an_answer_that_is_added_can_be_gone_on_with) {
  const auto model = open_file(demo_model());
  Talk whole(model, greedy(300), ""), begun(model, greedy(300), "");
  whole.say(script[0], 30);
  const std::string answer = whole.chat.transcript().messages().back().text;
  const std::string beginning = answer.substr(0, answer.find(' ', answer.size() / 2));
  ASSERT_TRUE(begun.chat.add(script[0], beginning));
  ASSERT_TRUE(begun.chat.go_on(8, nullptr, nullptr));
  const std::string gone_on = begun.chat.transcript().messages().back().text;
  EXPECT_EQ(gone_on.substr(0, answer.size()), answer.substr(0, gone_on.size()));
  EXPECT_GT(gone_on.size(), beginning.size());
  ASSERT_TRUE(begun.chat.add("Yes", "")) << "what was said, and no answer yet";
  EXPECT_EQ(begun.chat.transcript().messages().back().text, "Yes");
}

TEST(ChatTurns, what_cannot_be_added_is_taken_back) {
  const auto model = open_file(demo_model());
  Settings settings = greedy(100);
  settings.overflow = Overflow::error;
  Talk talk(model, settings, "");
  talk.say(script[0], 12);
  const auto before = talk.session->visible();
  std::string much;
  for (int i = 0; i < 200; ++i) much += "word ";
  EXPECT_FALSE(talk.chat.add("Yes", much));
  EXPECT_EQ(talk.session->visible(), before);
  EXPECT_EQ(talk.chat.transcript().messages().size(), 2u);
  talk.say(script[1], 6);
  EXPECT_EQ(talk.n_whole(), 2);
}

TEST(ChatTurns, undo_is_as_if_it_had_not_been_said) {
  const auto model = open_file(demo_model());
  for (const Evict evict : {Evict::turn, Evict::token})
    for (const char* system : {system_prompt, ""}) {
      std::vector<std::vector<Token>> seen;
      for (const bool detour : {false, true}) {
        Settings settings = greedy(300);
        settings.evict = evict;
        Talk talk(model, settings, system);
        EXPECT_FALSE(talk.chat.undo());
        for (const char* line : {script[0], script[1]}) {
          if (detour) {
            talk.say("Something else altogether.", 20);
            talk.undo();
          }
          talk.say(line, 20);
        }
        EXPECT_EQ(talk.n_whole(), 2);
        seen.push_back(talk.session->visible());
        talk.undo();
        EXPECT_EQ(talk.n_whole(), 1);
        talk.undo();
        EXPECT_FALSE(talk.chat.undo());
        EXPECT_TRUE(talk.chat.go_on(3, nullptr, nullptr));
      }
      EXPECT_EQ(seen[0], seen[1]);
    }
}

constexpr SynthShape tiny_windowed() {
  SynthShape shape = tiny("gemma2", 2);
  shape.post_norms = true;
  shape.sliding_window = 20;
  return shape;
}
constexpr SynthShape windowed = tiny_windowed();

// Layers with a window of their own have lost what a long message did not need.
TEST(ChatTurns, undo_of_what_is_longer_than_a_native_window) {
  const auto model = synthetic(windowed);
  Settings settings = greedy(2000);
  settings.chat_template = "chatml";
  settings.cache = CacheType::f32;
  settings.batch = 16;
  std::vector<std::vector<float>> logits;
  for (const bool detour : {false, true}) {
    Talk talk(model, settings, system_prompt);
    talk.say(script[0], 20);
    if (detour) {
      talk.say(script[8], 20);
      talk.undo();
      EXPECT_GT(talk.session->stats().reread_tokens, 60);
    }
    talk.say(script[1], 20);
    EXPECT_EQ(talk.n_whole(), 2) << talk.seen;
    logits.emplace_back(talk.session->logits(), talk.session->logits() + windowed.n_vocab);
  }
  EXPECT_LT(nmse(logits[1].data(), logits[0].data(), windowed.n_vocab), 1e-9);
}

TEST(ChatTurns, undo_that_is_stopped_leaves_an_empty_conversation) {
  Settings settings = greedy(2000);
  settings.chat_template = "chatml";
  settings.batch = 16;
  Talk talk(synthetic(windowed), settings, system_prompt);
  talk.say(script[0], 20);
  talk.say(script[8], 20);
  talk.session->set_progress([](void*, double) { return 1; }, nullptr);
  const Result<void> stopped = talk.chat.undo();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().status, RUNNEL_STOPPED);
  talk.session->set_progress(nullptr, nullptr);
  EXPECT_TRUE(talk.chat.transcript().messages().empty());
  EXPECT_FALSE(talk.chat.undo());
  EXPECT_TRUE(talk.chat.say("Hi", 3, nullptr, nullptr));
}

// What is taken back begins with the oldest token that is held: the one before, which would give the logits,
// has left.
TEST(ChatTurns, undo_back_to_where_the_window_begins) {
  const auto model = open_file(demo_model());
  int n_at_oldest = 0;
  for (int n_answer = 20; n_answer < 60; ++n_answer) {
    Settings settings = greedy(60);
    settings.evict = Evict::token;
    settings.batch = 1;
    settings.ignore_eos = true;
    Talk talk(model, settings, "");
    talk.say(script[0], 10);
    const std::int64_t start = talk.session->position();
    talk.say(script[1], n_answer);
    n_at_oldest += talk.session->held_from() == start ? 1 : 0;
    ASSERT_TRUE(talk.chat.undo());
    EXPECT_TRUE(talk.session->logits()) << n_answer;
    EXPECT_TRUE(talk.chat.go_on(3, nullptr, nullptr)) << n_answer;
  }
  EXPECT_EQ(n_at_oldest, 1);
}

TEST(ChatTurns, undo_and_again_after_eviction) {
  Talk talk(open_file(demo_model()), greedy(96), system_prompt);
  for (int round = 0; round < 20; ++round) {
    talk.say(script[round % 4], 12);
    std::string first, second;
    ASSERT_TRUE(talk.chat.again(12, append, &first));
    ASSERT_TRUE(talk.chat.again(12, append, &second));
    EXPECT_EQ(first, second);
    talk.undo();
    ASSERT_GE(talk.n_whole(), 0) << talk.seen;
    talk.say(script[(round + 1) % 4], 12);
    ASSERT_GE(talk.n_whole(), 1) << talk.seen;
  }
}

TEST(ChatTurns, pin_keeps_the_conversation) {
  Talk talk(open_file(demo_model()), greedy(150), system_prompt);
  talk.pin("Speak of food only.");
  for (int round = 0; round < 3; ++round) {
    for (const char* line : script) {
      talk.say(line, 8);
      ASSERT_GE(talk.n_whole(), 1) << talk.seen;
    }
    const std::int64_t n_prefix = talk.session->n_prefix();
    talk.pin("My name is Ann.");
    EXPECT_GT(talk.session->n_prefix(), n_prefix);
    ASSERT_GE(talk.n_whole(), 1) << talk.seen;
    EXPECT_EQ(talk.session->n_turns_seen(), talk.n_whole());
  }
  talk.undo();
  talk.say("And a hotel.", 8);
  ASSERT_GE(talk.n_whole(), 1) << talk.seen;

  // More than the cache holds: refused, and all is as it was.
  const std::vector<Token> before = talk.session->visible();
  EXPECT_FALSE(talk.chat.pin(std::string(2000, 'x')));
  EXPECT_FALSE(talk.chat.pin(""));
  EXPECT_FALSE(talk.chat.start(std::string(2000, 'x')));
  EXPECT_EQ(talk.session->visible(), before);
}

// With nothing left in the window the messages that were said stay, and statistics go on.
TEST(ChatTurns, pin_after_all_was_taken_back) {
  Talk talk(open_file(demo_model()), greedy(96), system_prompt);
  for (const char* line : script) talk.say(line, 8);
  while (talk.chat.undo()) {
  }
  const auto fed = talk.session->stats().fed_tokens;
  const std::size_t n_messages = talk.chat.transcript().messages().size();
  ASSERT_GT(n_messages, 0u);
  talk.pin("My name is Ann.");
  EXPECT_EQ(talk.session->stats().fed_tokens, fed);
  EXPECT_EQ(talk.chat.transcript().messages().size(), n_messages);
  talk.say(script[0], 8);
  EXPECT_EQ(talk.n_whole(), 1) << talk.seen;
}

// The ends of turns are generated: nobody hears of progress, and nothing counts as fed.
TEST(ChatTurns, going_on_feeds_nothing) {
  Talk talk(open_file(demo_model()), greedy(300), system_prompt);
  talk.say(script[0], -1);
  int n_calls = 0;
  talk.session->set_progress([](void* calls, double) { return ++*static_cast<int*>(calls), 0; }, &n_calls);
  const Session::Stats before = talk.session->stats();
  const std::int64_t position = talk.session->position();
  ASSERT_TRUE(talk.chat.go_on(100, nullptr, nullptr));
  EXPECT_EQ(n_calls, 0);
  EXPECT_EQ(talk.session->stats().fed_tokens, before.fed_tokens);
  EXPECT_EQ(talk.session->stats().generated_tokens, before.generated_tokens + 100);
  EXPECT_EQ(talk.session->position(), position + 100);
}

// A line break in front of the end of an answer, which the model has written itself, stands there once.
TEST(ChatTurns, blanks_that_end_an_answer_are_not_read_again) {
  const auto model = open_file(demo_model());
  std::vector<Token> line_break;
  ASSERT_TRUE(model->tokenizer()->encode("\n", 0, line_break));
  Settings settings = greedy(150);
  settings.chat_template = "deepseek-coder";
  settings.logit_bias = {{line_break.back(), 100.0f}};
  for (const std::int64_t n_tokens : {0, 1, 2}) {
    const auto session = std::move(*Session::open(model, settings));
    Chat chat = *Chat::open(*session, settings);
    ASSERT_TRUE(chat.start("Be short."));
    ASSERT_TRUE(chat.say("Hi", n_tokens, nullptr, nullptr));
    ASSERT_TRUE(chat.say("Why", 0, nullptr, nullptr));
    std::string text;
    for (const Token token : session->visible()) model->tokenizer()->decode(token, true, text);
    const std::string breaks(static_cast<std::size_t>(std::max<std::int64_t>(1, n_tokens)), '\n');
    EXPECT_NE(text.find("### Response:\n" + breaks + "<|EOT|>\n### Instruction:"), std::string::npos) << text;
  }
}

// An answer that was cut goes on in one text with its end: SentencePiece puts no space between the two.
TEST(ChatTurns, no_space_prefix_in_the_middle_of_a_text) {
  const auto model = synthetic(tiny("llama", 4));
  const Tokenizer& tokenizer = *model->tokenizer();
  const Token x = tokenizer.find("<0x78>"), blank = tokenizer.find("\u2581");
  for (const auto& [form, end] :
       {std::pair<const char*, Tokens>{"llama2", {x, blank, tokenizer.eos(), 1, blank}},
        {"chatml", {x, tokenizer.find("<0x3C>"), tokenizer.find("<0x7C>")}},
        {"mistral-v0.1", {x, tokenizer.eos(), blank, tokenizer.find("<0x5B>")}}}) {
    Settings settings = greedy(200);
    settings.chat_template = form;
    settings.logit_bias = {{x, 1000.0f}};
    const auto session = std::move(*Session::open(model, settings));
    Chat chat = *Chat::open(*session, settings);
    ASSERT_TRUE(chat.say("Hi", 2, nullptr, nullptr));
    const std::int64_t end_of_answer = session->position();
    ASSERT_TRUE(chat.say("Why", 0, nullptr, nullptr));
    Tokens read;
    for (std::size_t i = 0; i < end.size(); ++i)
      read.push_back(session->token(end_of_answer - 1 + static_cast<std::int64_t>(i)));
    EXPECT_EQ(read, end) << form;
  }
}

// Random weights and, in place of tokens that no text contains, these: their texts, and their token_type of
// gguf.md.
using OwnTokens = std::vector<std::pair<std::string, std::int32_t>>;
enum : std::int32_t { normal = 1, control = 3 };

std::shared_ptr<const Model> synthetic_with(const SynthShape& shape, const OwnTokens& tokens) {
  constexpr std::size_t first = 260;  // after specials, bytes and the blank
  const Folder folder;
  const std::string plain = folder.file("plain.gguf"), own = folder.file("own.gguf");
  require(write_synthetic({shape, &quant::type_info(quant::TensorType::f32), 1, {}}, plain, {}));
  const auto file = GgufFile::open(plain);
  std::vector<std::string_view> texts = *file->get_strings("tokenizer.ggml.tokens");
  const std::vector<std::int64_t> plain_types = *file->get_ints("tokenizer.ggml.token_type");
  std::vector<std::int32_t> types(plain_types.begin(), plain_types.end());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    texts[first + i] = tokens[i].first;
    types[first + i] = tokens[i].second;
  }
  auto writer = GgufWriter::create(own, {plain});
  for (const auto& [key, value] : file->metadata())
    if (key != "tokenizer.ggml.tokens" && key != "tokenizer.ggml.token_type")
      require(writer->add(key, value));
  require(writer->add("tokenizer.ggml.tokens", texts));
  require(writer->add("tokenizer.ggml.token_type", types));
  for (const GgufTensor& t : file->tensors())
    require(writer->add_tensor(t.name, *t.type, std::span(t.dims).first(t.rank)));
  for (const GgufTensor& t : file->tensors()) require(writer->write({t.data, t.n_bytes}));
  require(writer->finish());
  return open_file(own);
}

// Also where the answer follows a special token, and where only its text came from elsewhere, without the
// blank that these models begin answers with.
TEST(ChatTurns, an_added_answer_has_the_tokens_of_one_that_was_given) {
  const auto model =
      synthetic_with(tiny("llama", 4), {{"\u2581x", normal}, {"[INST]", control}, {"[/INST]", control}});
  for (std::size_t i = 0; i < n_chat_forms(); ++i) {
    const ChatForm& form = chat_form(i);
    if (form.trims != Trims::nothing && !form.answers_with_blank) continue;  // these take the blank away
    if (*form.reasoning) continue;  // of which there is none in these answers
    Settings settings = greedy(600);
    settings.chat_template = form.name;
    settings.logit_bias = {{model->tokenizer()->find("\u2581x"), 1000.0f}};
    Talk said(model, settings, "");
    said.say("Hi", 1);
    ASSERT_EQ(said.chat.transcript().messages().back().text, " x");
    for (const char* answer : {" x", "x"}) {
      if (*answer == 'x' && !form.answers_with_blank) continue;
      Talk added(model, settings, "");
      ASSERT_TRUE(added.chat.add("Hi", answer));
      EXPECT_EQ(added.session->visible(), said.session->visible()) << form.name;
    }
  }
}

// Those of Phi 3 swallow the white space after them also where it is read later than they were.
TEST(ChatTurns, special_tokens_swallow_white_space_of_later_parts) {
  SynthShape shape = tiny("phi3", 4);
  shape.fused = true;
  const auto model = synthetic_with(
      shape,
      {{"<|system|>", control}, {"<|user|>", control}, {"<|assistant|>", control}, {"<|end|>", control}});
  const Tokenizer& tokenizer = *model->tokenizer();
  Tokens expected;
  ASSERT_TRUE(
      tokenizer.encode("<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nOh?<|end|>\n"
                       "<|user|>\nWhy<|end|>\n<|assistant|>\n",
                       RUNNEL_ADD_BOS | RUNNEL_PARSE_SPECIAL, expected));
  Settings settings = greedy(200);
  settings.chat_template = "phi3";
  settings.logit_bias = {{tokenizer.find("<|end|>"), 1000.0f}};
  for (const bool ends : {false, true}) {
    const auto session = std::move(*Session::open(model, settings));
    Chat chat = *Chat::open(*session, settings);
    ASSERT_TRUE(chat.start("Be kind."));
    ASSERT_TRUE(chat.add("Hi", "Oh?"));
    if (ends) {
      ASSERT_TRUE(chat.go_on(1, nullptr, nullptr));
    }
    ASSERT_TRUE(chat.say("Why", 0, nullptr, nullptr));
    EXPECT_EQ(session->visible(), expected) << ends;
  }
}

// Where a form ends answers with a text, the model that goes on writes it and passes it like a token.
TEST(ChatTurns, going_on_passes_ends_that_are_texts) {
  std::string whole, passed;
  for (std::string* text : {&whole, &passed}) {
    Talk talk(open_file(demo_model()), greedy(150), "");
    talk.say(script[0], 8);
    if (text == &passed) talk.session->set_answer_end(whole.substr(5, 4));
    const std::int64_t before = talk.session->position();
    const auto finish = talk.chat.go_on(30, append, text);
    ASSERT_TRUE(finish) << finish.error().message;
    EXPECT_EQ(*finish, RUNNEL_FINISH_LENGTH);
    EXPECT_EQ(talk.session->position() - before, 30);
  }
  EXPECT_EQ(passed.substr(0, 6), whole.substr(0, 5) + "\n");
}

// What the bundled model says first, of which tests take parts for the ends of answers and for stop texts.
std::string first_answer() {
  std::string answer;
  Talk talk(open_file(demo_model()), greedy(150), "");
  EXPECT_TRUE(talk.chat.say(script[0], 8, append, &answer));
  return answer;
}

// An answer that has ended with its text is not ended again, after going on by no token.
TEST(ChatTurns, going_on_by_nothing_changes_nothing) {
  const std::string answer = first_answer();
  std::vector<Token> seen;
  for (const bool goes_on : {false, true}) {
    Talk talk(open_file(demo_model()), greedy(150), "");
    talk.session->set_answer_end(answer.substr(5, 4));
    ASSERT_EQ(*talk.chat.say(script[0], 8, nullptr, nullptr), RUNNEL_FINISH_STOP_TEXT);
    if (goes_on) {
      EXPECT_EQ(*talk.chat.go_on(0, nullptr, nullptr), RUNNEL_FINISH_LENGTH);
    }
    ASSERT_TRUE(talk.chat.say(script[1], 0, nullptr, nullptr));
    if (goes_on) {
      EXPECT_EQ(talk.session->visible(), seen);
    }
    seen = talk.session->visible();
  }
}

// So it is by a stop text of the user's that ends with that of the form.
TEST(ChatTurns, a_stop_text_may_hold_the_end_of_the_answer) {
  const std::string answer = first_answer();
  std::vector<Token> seen;
  for (const bool is_longer : {false, true}) {
    Settings settings = greedy(150);
    if (is_longer) settings.stop = {answer.substr(3, 6)};
    Talk talk(open_file(demo_model()), settings, "");
    talk.session->set_answer_end(answer.substr(5, 4));
    ASSERT_EQ(*talk.chat.say(script[0], 8, nullptr, nullptr), RUNNEL_FINISH_STOP_TEXT);
    ASSERT_TRUE(talk.chat.say(script[1], 0, nullptr, nullptr));
    if (is_longer) {
      EXPECT_EQ(talk.session->visible(), seen);  // the end of the answer once
    }
    seen = talk.session->visible();
  }
}

// The text in front of it was held back, as a stop text may have begun there, and comes with it.
TEST(ChatTurns, an_end_that_is_a_text_counts_where_the_piece_before_it_is_refused) {
  const std::string answer = first_answer();
  const auto refuse_fifth_byte = [](void* given, const char* text, std::size_t n_bytes, std::int32_t token) {
    append(given, text, n_bytes, token);
    return static_cast<std::string*>(given)->size() < 5 ? 0 : 1;
  };
  std::vector<Token> seen;
  for (const bool refuses : {false, true}) {
    Settings settings = greedy(150);
    settings.stop = {answer.substr(4, 5) + "and more"};
    Talk talk(open_file(demo_model()), settings, "");
    talk.session->set_answer_end(answer.substr(5, 4));
    std::string given;
    const auto finish = talk.chat.say(script[0], 8, refuses ? +refuse_fifth_byte : append, &given);
    ASSERT_TRUE(finish) << finish.error().message;
    EXPECT_EQ(*finish, refuses ? RUNNEL_FINISH_STOPPED : RUNNEL_FINISH_STOP_TEXT);
    EXPECT_EQ(given, answer.substr(0, 5));
    ASSERT_TRUE(talk.chat.say(script[1], 0, nullptr, nullptr));
    if (refuses) {
      EXPECT_EQ(talk.session->visible(), seen);  // the end of the answer once
    }
    seen = talk.session->visible();
  }
}

// A conversation that is saved with that piece has the end too.
TEST(ChatTurns, an_end_that_is_a_text_is_saved_with_the_piece_before_it) {
  const std::string answer = first_answer();
  Settings settings = greedy(150);
  settings.stop = {answer.substr(4, 5) + "and more"};
  Talk talk(open_file(demo_model()), settings, ""), copy(open_file(demo_model()), settings, "");
  for (Talk* each : {&talk, &copy}) each->session->set_answer_end(answer.substr(5, 4));
  const Folder folder;
  struct Call {
    Chat* chat;
    std::string path;
  } call{&talk.chat, folder.file("chat")};
  const auto save = [](void* user, const char*, std::size_t, std::int32_t) {
    const auto* c = static_cast<const Call*>(user);
    EXPECT_TRUE(c->chat->save(c->path));
    return 0;
  };
  ASSERT_EQ(*talk.chat.say(script[0], 8, save, &call), RUNNEL_FINISH_STOP_TEXT);
  ASSERT_TRUE(copy.chat.load(call.path));  // as it was with the last piece
  for (Talk* each : {&talk, &copy}) ASSERT_TRUE(each->chat.say(script[1], 0, nullptr, nullptr));
  EXPECT_EQ(copy.session->visible(), talk.session->visible());
}

// The window is all the message's: what does not fit in is not seen, and how much that is can be asked.
TEST(ChatTurns, messages_longer_than_the_window) {
  Settings settings = greedy(60);
  Talk talk(open_file(demo_model()), settings, "");
  talk.say(script[0], 8);
  std::string text;
  for (int i = 0; i < 12; ++i) text += std::string(script[0]) + " ";
  talk.say(text, 8);
  const std::int64_t unseen = talk.session->stats().unseen_tokens;
  EXPECT_GT(unseen, 50);
  EXPECT_LT(unseen, 200);
  EXPECT_EQ(talk.n_whole(), -1);
  talk.say(script[1], 8);  // the next exchange makes all the rest of it leave
  EXPECT_EQ(talk.n_whole(), 1) << talk.seen;

  ASSERT_TRUE(talk.session->set("overflow", "error"));
  const std::vector<Token> before = talk.session->visible();
  const auto refused = talk.chat.say(text, 8, nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(talk.session->visible(), before);
  EXPECT_TRUE(talk.chat.go_on(3, nullptr, nullptr));
}

}  // namespace
