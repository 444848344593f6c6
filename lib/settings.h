// Every setting of models, sessions and sampling: one struct of checked values, one table of names
// (settings.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/result.h"

namespace runnel {

enum class CacheType { f32, f16, i8 };
const char* cache_type_name(CacheType type);  // as the setting "cache" spells it
enum class Evict { automatic, token, turn };  // what leaves a full window; automatic: turn in a chat
enum class Overflow { stream, error };        // of a feed that the window cannot hold

struct Settings {
  // Model
  bool vocab_only = false;
  bool int8 = false;  // pack the matrices to int8 when the model is opened
  std::string isa;    // kernel row by name; empty: the best this CPU runs

  // Session
  std::int32_t threads = 0;  // 0: one for each performance core
  std::int32_t sinks = 4;    // first tokens that stay for ever
  std::int32_t window = 0;   // last tokens that are seen; 0: what the trained context leaves, at most 4096
  std::int32_t batch = 256;  // tokens of a prompt that go through the model together
  CacheType cache = CacheType::f16;
  Evict evict = Evict::automatic;
  Overflow overflow = Overflow::stream;

  // Sampling, in the order in which the chain applies it (see sampler.h)
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // "15=-1.5,27=-inf"
  float repetition_penalty = 1.0f;                         // 1: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::int32_t penalty_window = 64;  // last tokens the penalties look at
  std::int32_t top_k = 40;           // 0: off
  float typical_p = 1.0f;            // 1: off
  float top_p = 0.95f;               // 1: off
  float min_p = 0.05f;               // 0: off
  float temperature = 0.8f;          // 0: greedy
  std::uint64_t seed = 0;

  // Generation
  // Texts that end it; set() takes one a line, where \n, \t and \\ stand for those characters.
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string chat_template;  // name: "template"; empty: the model's own

  // Checks and stores; an error names the setting, what it takes and what it got.
  Result<void> set(std::string_view name, std::string_view value);
  // The value as set() takes it; an unknown name is an error.
  Result<std::string> get(std::string_view name) const;
};

// Until when a setting can be changed.
enum class SettingScope {
  model,    // until a model is opened with it
  session,  // until a session (or a chat) is opened with it
  running,  // at any time
  sampling  // at any time; Sampler::configure() takes it over
};

struct SettingInfo {
  const char* name;
  const char* help;  // meaning, unit, range, default
  SettingScope scope;
};

std::size_t n_settings();
const SettingInfo& setting_info(std::size_t i);
const SettingInfo* find_setting(std::string_view name);

}  // namespace runnel
