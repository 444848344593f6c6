#include <gtest/gtest.h>

#include <random>

#include "lib/session/stop_text.h"

namespace runnel {
namespace {

struct Outcome {
  std::string text;
  bool stopped;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << '"' << o.text << "\" " << o.stopped;
}

// Feeds the text cut after every `size` bytes.
Outcome run(const std::vector<std::string>& stops, std::string_view text, std::size_t size) {
  StopText matcher(stops);
  Outcome outcome{"", false};
  for (; !text.empty() && !outcome.stopped; text.remove_prefix(std::min(size, text.size()))) {
    outcome.stopped = matcher.push(text.substr(0, size), outcome.text);
  }
  if (!outcome.stopped) matcher.flush(outcome.text);
  return outcome;
}

// The first end of a stop text, found by looking at every beginning of the text.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 0; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopText, GivesOutAtOnceWhatIsFree) {
  StopText matcher({"\nUser:"});
  std::string out;
  EXPECT_FALSE(matcher.push("Hello", out));
  EXPECT_EQ(out, "Hello");
  EXPECT_FALSE(matcher.push("\nUs", out));
  EXPECT_EQ(out, "Hello");
  EXPECT_FALSE(matcher.push("ual.", out));
  EXPECT_EQ(out, "Hello\nUsual.");
  EXPECT_FALSE(matcher.push(" \nUser", out));
  EXPECT_EQ(out, "Hello\nUsual. ");
  EXPECT_TRUE(matcher.push(": more", out));
  EXPECT_EQ(out, "Hello\nUsual. ");
  matcher.flush(out);
  EXPECT_EQ(out, "Hello\nUsual. ") << "nothing is left after a stop";
}

TEST(StopText, FlushGivesTheRest) {
  StopText matcher({"###"});
  std::string out;
  EXPECT_FALSE(matcher.push("a##", out));
  EXPECT_EQ(out, "a");
  matcher.flush(out);
  EXPECT_EQ(out, "a##");
  matcher.clear();
  EXPECT_FALSE(matcher.push("##", out));
  matcher.clear();
  matcher.flush(out);
  EXPECT_EQ(out, "a##");
}

// A text that is asked for in parts, as by generate() token by token: each is given out at its end.
TEST(StopText, FindsWhatBeganInAnEarlierPart) {
  StopText matcher({"\nUser:", "ab"});
  std::string out;
  for (const char* part : {"Hello\nU", "se"}) {
    EXPECT_FALSE(matcher.push(part, out));
    matcher.flush(out);
  }
  EXPECT_EQ(out, "Hello\nUse");
  EXPECT_TRUE(matcher.push("r: more", out));
  EXPECT_EQ(out, "Hello\nUse") << "given out before it was known";

  out.clear();
  EXPECT_FALSE(matcher.push("\nU", out)) << "nothing is left after a stop";
  matcher.flush(out);
  EXPECT_FALSE(matcher.push("s\n", out));
  EXPECT_EQ(out, "\nUs") << "no stop text begins with what was given, another may";
  EXPECT_TRUE(matcher.push("User:", out));
  EXPECT_EQ(out, "\nUs");

  out.clear();
  EXPECT_FALSE(matcher.push("a", out));
  matcher.flush(out);
  matcher.clear();
  EXPECT_FALSE(matcher.push("b", out)) << "of another text";
  EXPECT_EQ(out, "ab");
  matcher.clear();
  EXPECT_FALSE(matcher.push("\nU", out));
  matcher.flush(out);
  matcher.set_stops({"\nU"});
  EXPECT_FALSE(matcher.push("!", out)) << "what has become a stop text since then was given out";
}

TEST(StopText, WithoutStopsEverythingPasses) {
  EXPECT_EQ(run({}, "abc", 2), (Outcome{"abc", false}));
  EXPECT_EQ(run({"", ""}, "abc", 2), (Outcome{"abc", false}));
}

TEST(StopText, FirstCompleteThenLongest) {
  EXPECT_EQ(run({"abcd", "bc"}, "xabcd", 5), (Outcome{"xa", true}));
  EXPECT_EQ(run({"c", "abc"}, "xabc", 4), (Outcome{"x", true}));
  EXPECT_EQ(run({"aab"}, "aaab", 1), (Outcome{"a", true}));
}

TEST(StopText, TellsTheEndOfAnAnswerFromAStop) {
  StopText matcher({"?", "<|end|>!"});
  std::string out;
  EXPECT_FALSE(matcher.push("<|end|>", out)) << "nothing ends an answer yet";
  matcher.set_answer_end("<|end|>");
  matcher.clear();
  EXPECT_TRUE(matcher.push("a?", out));
  EXPECT_FALSE(matcher.found_answer_end());
  EXPECT_TRUE(matcher.push("b<|end|>", out));
  EXPECT_TRUE(matcher.found_answer_end());
  matcher.set_stops({"<|end|>"});  // both at once
  EXPECT_TRUE(matcher.push("<|end|>", out));
  EXPECT_TRUE(matcher.found_answer_end());
  EXPECT_FALSE(matcher.push("?", out)) << "stop texts were replaced";
  EXPECT_FALSE(matcher.found_answer_end());
  EXPECT_FALSE(matcher.has_answer_end());
  matcher.set_stops({"!<|end|>", "<|end"});
  EXPECT_TRUE(matcher.push("a!<|end|", out));
  EXPECT_FALSE(matcher.has_answer_end()) << "which is not complete";
  matcher.set_stops({"!<|end|>"});
  EXPECT_TRUE(matcher.push("a!<|end|>", out));
  EXPECT_FALSE(matcher.found_answer_end());
  EXPECT_TRUE(matcher.has_answer_end());
  matcher.set_answer_end("");
  matcher.set_stops({"d"});
  EXPECT_TRUE(matcher.push("<|end|>d", out));
  EXPECT_FALSE(matcher.found_answer_end());
}

TEST(StopText, AgreesWithTheDefinitionHoweverItIsCut) {
  std::mt19937 random(1);
  const auto word = [&](std::size_t longest) {
    std::string text;
    for (std::size_t n = random() % (longest + 1); n > 0; --n) text += "ab"[random() % 2];
    return text;
  };
  const auto in_parts = [](const std::vector<std::string>& stops, std::string_view text, std::size_t size) {
    StopText matcher(stops);
    Outcome outcome{"", false};
    for (; !text.empty() && !outcome.stopped; text.remove_prefix(std::min(size, text.size()))) {
      outcome.stopped = matcher.push(text.substr(0, size), outcome.text);
      matcher.flush(outcome.text);
    }
    return outcome;
  };
  int n_stopped = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<std::string> stops = {word(6), word(6), word(9)};
    const std::string text = word(14);
    const Outcome expected = by_definition(stops, text);
    n_stopped += expected.stopped;
    for (const std::size_t size : {1u, 2u, 3u, 5u, 20u}) {
      ASSERT_EQ(run(stops, text, size), expected) << text;
      // Where a stop text shares parts, its beginning stays given.
      const Outcome parts = in_parts(stops, text, size);
      ASSERT_EQ(parts.stopped, expected.stopped) << text;
      ASSERT_TRUE(text.starts_with(parts.text) && parts.text.size() >= expected.text.size()) << text;
    }
  }
  EXPECT_GT(n_stopped, 500);
  EXPECT_LT(n_stopped, 4990);
}

}  // namespace
}  // namespace runnel
