#include "lib/unsupported_keys.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lib/text/printable.h"

namespace runnel {
namespace {

struct Key {
  const char* name;                // after the architecture's where it begins with a dot
  std::array<double, 2> harmless;  // values that ask for what runnel does; false is 0, true is 1
  const char* instead;
};

// Names: llama.cpp's gguf-py/gguf/constants.py. Harmless are the values at which its src/llama-graph.cpp and
// src/models compute the same as without the key.
constexpr Key keys[] = {
    {".attention.causal", {1, 1}, "runnel keeps later tokens from attention"},
    {".attention.clamp_kqv", {0, 0}, "runnel does not clamp queries, keys and values"},
    {".attention.temperature_scale", {0, 0}, "runnel has attention as sharp at every position"},
    {".expert_gating_func", {0, 1}, "runnel weighs experts by a softmax"},
    {".expert_group_count", {0, 1}, "runnel chooses among all experts"},
    {".expert_weights_norm", {1, 1}, "runnel makes the weights of a token's experts add up to 1"},
    {".expert_weights_scale", {0, 1}, "runnel makes the weights of a token's experts add up to 1"},
    {".rope.scaling.alpha", {0, 1}, "runnel rotates by the base as it is"},
    {".rope.scaling.yarn_attn_factor", {1, 1}, "runnel has the magnitude of the YaRN paper"},
    {".rope.scaling.yarn_ext_factor", {-1, 1}, "runnel has the frequencies of the YaRN paper"},
    {".rope.scaling.yarn_log_multiplier", {0, 0}, "runnel has the magnitude of the YaRN paper"},
    {"gemma2.attention.sliding_window_pattern", {2, 2}, "runnel gives every second layer a window"},
    {"granite.rope.scaling.finetuned", {1, 1}, "runnel rotates the queries and keys of every Granite"},
};

// The pattern told layer by layer (llama.cpp's src/llama-model-saver.cpp): 2 where every second layer has a
// window, the first one among them, else 0.
Result<double> window_pattern(const GgufFile& file, const std::string& key, const GgufValue& value) {
  constexpr std::uint64_t max_layers = 4096;  // no model comes near
  if (value.count > max_layers) return 0.0;
  RUNNEL_ASSIGN(const std::vector<std::int64_t> has_window, file.get_ints(key));
  for (std::size_t i = 0; i < has_window.size(); ++i)
    if (has_window[i] != (i % 2 == 0)) return 0.0;
  return 2.0;
}

Result<double> number(const GgufFile& file, const std::string& key, const GgufValue& value) {
  if (value.is_array && key.ends_with(".sliding_window_pattern")) return window_pattern(file, key, value);
  if (value.type != GgufType::boolean) return file.get_real(key);
  RUNNEL_ASSIGN(const bool is_true, file.get_bool(key));
  return is_true ? 1.0 : 0.0;
}

}  // namespace

Result<void> refuse_other_kinds(const GgufFile& file) {
  constexpr const char* key = "general.type";
  RUNNEL_ASSIGN(const std::string_view kind, file.get_string(key, "model"));
  if (kind == "model") return {};
  return error(RUNNEL_UNSUPPORTED, "%s: %s is \"%s\", expected \"model\"", file.name().c_str(), key,
               printable(kind, 40).c_str());
}

Result<void> refuse_part(const GgufFile& file) {
  constexpr const char* key = "split.count";
  RUNNEL_ASSIGN(const std::int64_t n, file.get_int(key, 0, std::numeric_limits<std::int32_t>::max(), 1));
  if (n <= 1) return {};
  return error(RUNNEL_UNSUPPORTED,
               "%s: the file is one of the %lld parts (%s) of a model, which have to be merged first "
               "(llama-gguf-split --merge)",
               file.name().c_str(), static_cast<long long>(n), key);
}

Result<void> refuse_unsupported_keys(const GgufFile& file, const std::string& architecture) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();  // the loader has its own limit
  RUNNEL_ASSIGN(const std::int64_t n_expert, file.get_int(architecture + ".expert_count", 0, any, 0));
  for (const Key& key : keys) {
    // Of a model without experts they say nothing; llama.cpp's llama_model_save_to_file() writes them.
    if (n_expert == 0 && std::string_view(key.name).starts_with(".expert_")) continue;
    const std::string name = (key.name[0] == '.' ? architecture : "") + key.name;
    const GgufValue* value = file.find(name);
    if (!value) continue;
    RUNNEL_ASSIGN(const double asked, number(file, name, *value));
    if (std::find(key.harmless.begin(), key.harmless.end(), asked) != key.harmless.end()) continue;
    return error(RUNNEL_UNSUPPORTED, "%s: %s is %s, but %s", file.name().c_str(), name.c_str(),
                 to_text(*value, 40).c_str(), key.instead);
  }
  return {};
}

}  // namespace runnel
