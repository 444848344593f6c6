#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "lib/settings.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

std::string message(const char* name, const std::string& value) {
  Settings settings;
  const auto result = settings.set(name, value);
  return result ? "accepted" : result.error().message;
}

std::string stored(const char* name, const std::string& value) {
  Settings settings;
  if (auto result = settings.set(name, value); !result) return result.error().message;
  return *settings.get(name);
}

TEST(Settings, HelpEndsWithTheDefault) {
  const Settings defaults;
  for (std::size_t i = 0; i < n_settings(); ++i) {
    const SettingInfo& info = setting_info(i);
    const std::string help = info.help;
    const std::string value = *defaults.get(info.name);
    const std::string end = "; default " + (value.empty() ? "empty" : value);
    EXPECT_TRUE(help.size() > end.size() && help.substr(help.size() - end.size()) == end)
        << info.name << ": " << help;
  }
}

TEST(Settings, DefaultsAreAccepted) {
  const Settings defaults;
  for (std::size_t i = 0; i < n_settings(); ++i) {
    const char* name = setting_info(i).name;
    EXPECT_EQ(stored(name, *defaults.get(name)), *defaults.get(name)) << name;
  }
}

TEST(Settings, NamesAreUniqueAndFound) {
  for (std::size_t i = 0; i < n_settings(); ++i)
    EXPECT_EQ(find_setting(setting_info(i).name), &setting_info(i));
  EXPECT_EQ(find_setting("temp"), nullptr);
  EXPECT_EQ(find_setting(""), nullptr);
  EXPECT_EQ(find_setting("threads")->scope, SettingScope::running);
  EXPECT_EQ(find_setting("int8")->scope, SettingScope::model);
  EXPECT_EQ(find_setting("isa")->scope, SettingScope::session);
  EXPECT_EQ(find_setting("window")->scope, SettingScope::session);
  EXPECT_EQ(find_setting("top_k")->scope, SettingScope::sampling);
}

TEST(Settings, UnknownNameNamesTheSettings) {
  Settings settings;
  const auto result = settings.set("temprature", "1");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(result.error().message.find("\"temprature\""), std::string::npos);
  EXPECT_NE(result.error().message.find(", temperature, "), std::string::npos);
  EXPECT_FALSE(settings.get("temprature"));
}

TEST(Settings, WholeNumbersAreReadInFull) {
  for (const char* value : {"-3", "1e99", "9223372036854775808", "nan", "", "0x10", "12 ", " 12", "+12",
                            "1.0", "16777217", "4294967297", "-9223372036854775809"}) {
    EXPECT_EQ(
        message("window", value),
        "window: expected a whole number of tokens from 0 to 16777216, got \"" + std::string(value) + "\"");
  }
  EXPECT_EQ(stored("window", "16777216"), "16777216");
  EXPECT_EQ(stored("window", "1"), "1");
  EXPECT_EQ(stored("top_k", "2147483647"), "2147483647");
  EXPECT_EQ(message("top_k", "2147483648"),
            "top_k: expected a whole number of tokens from 0 to 2147483647, got \"2147483648\"");
  EXPECT_EQ(message("batch", "0"), "batch: expected a whole number of tokens from 1 to 65536, got \"0\"");
  EXPECT_EQ(message("threads", "1025"),
            "threads: expected a whole number of threads from 0 to 1024, got \"1025\"");
}

TEST(Settings, SeedTakesAll64Bits) {
  EXPECT_EQ(stored("seed", "18446744073709551615"), "18446744073709551615");
  for (const char* value : {"18446744073709551616", "-1", "", "7a"}) {
    EXPECT_EQ(message("seed", value),
              "seed: expected a whole number from 0 to 18446744073709551615, or random, got \"" +
                  std::string(value) + "\"");
  }
}

// The number is there to be used again.
TEST(Settings, SeedCanBeDrawn) {
  const std::string first = stored("seed", "random");
  EXPECT_EQ(stored("seed", first), first);
  EXPECT_NE(stored("seed", "random"), first);
}

TEST(Settings, RealsAreFiniteAndInRange) {
  for (const char* value : {"nan", "inf", "-inf", "1e99", "1e999", "1e99999999999", "-0.001", "100.001", "",
                            ".", "-", "1e", "0.7x", "0,7", "0x1p0", "+1", " 1", "1 "}) {
    EXPECT_EQ(message("temperature", value),
              "temperature: expected a number from 0 to 100, got \"" + std::string(value) + "\"");
  }
  EXPECT_EQ(stored("temperature", "0.7"), "0.7");
  EXPECT_EQ(stored("temperature", "-0"), "0");
  EXPECT_EQ(stored("temperature", "1e1"), "10");
  EXPECT_EQ(stored("min_p", "1e-40"), "1e-40");
  for (const char* small :
       {"1e-50", "-1e-50", "1e-400", "1e-99999", "-0.00000000000000000000000000000000000000000000001"})
    EXPECT_EQ(stored("min_p", small), "0") << small;
  EXPECT_EQ(message("top_p", "0"), "top_p: expected a number above 0 and up to 1, got \"0\"");
  EXPECT_EQ(message("typical_p", "1e-60"), "typical_p: expected a number above 0 and up to 1, got \"1e-60\"");
  EXPECT_EQ(stored("top_p", "1"), "1");
  EXPECT_EQ(stored("min_p", "0"), "0");
  EXPECT_EQ(message("repetition_penalty", "0"),
            "repetition_penalty: expected a number from 0.1 to 10, got \"0\"");
  EXPECT_EQ(stored("repetition_penalty", "0.1"), "0.1");
  EXPECT_EQ(stored("presence_penalty", "-10"), "-10");
}

TEST(Settings, TruthAndCache) {
  EXPECT_EQ(stored("vocab_only", "true"), "true");
  EXPECT_EQ(message("ignore_eos", "yes"), "ignore_eos: expected true or false, got \"yes\"");
  EXPECT_EQ(stored("cache", "f32"), "f32");
  EXPECT_EQ(message("cache", "q4"), "cache: expected f32 or f16 or int8, got \"q4\"");
}

TEST(Settings, KernelRows) {
  const std::uint32_t features = simd::cpu_features();
  std::string here;
  for (const simd::IsaRow& row : simd::isa_rows()) {
    if (row.runs_on(features)) here += (here.empty() ? "" : " or ") + std::string(row.name);
    EXPECT_EQ(stored("isa", row.name) == row.name, row.runs_on(features)) << row.name;
  }
  EXPECT_EQ(message("isa", "abacus"),
            "isa: expected " + here + " (what is built in and this CPU runs), got \"abacus\"");
  EXPECT_EQ(stored("isa", ""), "");
}

TEST(Settings, Templates) {
  EXPECT_EQ(stored("template", "chatml"), "chatml");
  const std::string source = "{{ '<|im_start|>' + message['role'] + '<|im_end|>' }}";
  EXPECT_EQ(stored("template", source), source);
  EXPECT_EQ(stored("template", ""), "");
  for (const char* value : {"abacus", "{% abacus %}"}) {
    const std::string text = message("template", value);
    EXPECT_EQ(text.find("template: expected the name of a chat form (chatml, "), 0u) << text;
    EXPECT_NE(text.find(", command-r) or the text of a template of one of them, got \""), std::string::npos)
        << text;
  }
}

TEST(Settings, LogitBias) {
  Settings settings;
  ASSERT_TRUE(settings.set("logit_bias", "27=-inf,15=-1.5"));
  ASSERT_EQ(settings.logit_bias.size(), 2u);
  EXPECT_EQ(settings.logit_bias[0], std::pair(15, -1.5f));
  EXPECT_EQ(settings.logit_bias[1], std::pair(27, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(*settings.get("logit_bias"), "15=-1.5,27=-inf");
  for (const char* value : {"15", "15=", "=1", "-1=1", "15=inf", "15=nan", "15=1e4", "1=1,,2=2",
                            "2147483648=1", "1=1,1=2", "1=1;2=2"}) {
    EXPECT_FALSE(settings.set("logit_bias", value)) << value;
  }
  EXPECT_EQ(*settings.get("logit_bias"), "15=-1.5,27=-inf") << "a refused value leaves the old one";
  ASSERT_TRUE(settings.set("logit_bias", ""));
  EXPECT_TRUE(settings.logit_bias.empty());
}

TEST(Settings, StopTexts) {
  Settings settings;
  ASSERT_TRUE(settings.set("stop", "User:\n\\n\\n\n\na\\\\b"));
  EXPECT_EQ(settings.stop, (std::vector<std::string>{"User:", "\n\n", "a\\b"}));
  EXPECT_EQ(*settings.get("stop"), "User:\n\\n\\n\na\\\\b");
  EXPECT_FALSE(settings.set("stop", "a\\"));
  EXPECT_FALSE(settings.set("stop", "a\\x"));
  EXPECT_FALSE(settings.set("stop", "half a character \xC3"));
  EXPECT_TRUE(settings.set("stop", std::string(1024, 'x')));
  EXPECT_FALSE(settings.set("stop", std::string(1025, 'x')));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "x\n";
  EXPECT_FALSE(settings.set("stop", many));
}

TEST(Settings, MessagesStayShortAndPrintable) {
  const std::string text = message("window", "\x1b[2J" + std::string(100000, '9'));
  EXPECT_LT(text.size(), 200u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace runnel
