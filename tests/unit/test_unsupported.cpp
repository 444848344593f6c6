// What a model file asks for and runnel does not have: weights that nothing uses, and keys.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/model.h"
#include "lib/synth/tensors.h"
#include "tests/unit/gguf_builder.h"

namespace runnel::test {
namespace {

constexpr std::uint32_t f16 = 1, q8_0 = 8, i32 = 26;

// The matrices of a feed-forward network, once for each expert.
void give_to_experts(SynthTensor& tensor, std::uint32_t n_expert) {
  if (!tensor.is_matrix() || tensor.name.find(".ffn_") == std::string::npos) return;
  tensor.name.insert(tensor.name.rfind('.'), "_exps");
  tensor.dims.push_back(n_expert);
}

// A model of two layers whose weights are all 0.
GgufBuilder tiny(const std::string& architecture, std::uint32_t n_expert = 0) {
  SynthShape shape{.name = "tiny",
                   .architecture = architecture.c_str(),
                   .n_vocab = 32,
                   .n_embd = 64,
                   .n_layer = 2,
                   .n_head = 4,
                   .n_head_kv = 2,
                   .head_dim = 16,
                   .n_ff = 96,
                   .n_ctx_train = 64};
  shape.head_norms = architecture == "qwen3";
  shape.post_norms = architecture == "gemma2";
  shape.fused = architecture == "phi3";
  GgufBuilder file;
  file.add("general.architecture", architecture);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::uint32_t>>{
           {"context_length", shape.n_ctx_train},
           {"embedding_length", shape.n_embd},
           {"block_count", shape.n_layer},
           {"feed_forward_length", shape.n_ff},
           {"attention.head_count", shape.n_head},
           {"attention.head_count_kv", shape.n_head_kv}})
    file.add(architecture + "." + name, value);
  file.add(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  if (architecture == "granite") file.add("granite.logit_scale", 8.0f);
  for (SynthTensor tensor : synth_tensors(shape)) {
    if (n_expert > 0) give_to_experts(tensor, n_expert);
    file.tensor(tensor.name, tensor.dims, std::vector<float>(tensor.n_elements()));
  }
  if (n_expert == 0) return file;
  for (const char* router : {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_gate_inp.weight"})
    file.tensor(router, {shape.n_embd, n_expert}, std::vector<float>(shape.n_embd * n_expert));
  return file.add(architecture + ".expert_count", n_expert).add(architecture + ".expert_used_count", 1u);
}

void expect_loads(const GgufBuilder& file) {
  const std::vector<std::byte> bytes = file.build();
  const auto model = Model::from_memory(bytes, {}, "file");
  EXPECT_TRUE(model) << model.error().message;
}

void expect_refused(const GgufBuilder& file, const std::string& message) {
  const std::vector<std::byte> bytes = file.build();
  const auto model = Model::from_memory(bytes, {}, "file");
  ASSERT_FALSE(model) << message;
  EXPECT_EQ(model.error().status, RUNNEL_UNSUPPORTED);
  EXPECT_EQ(model.error().message.substr(0, message.size()), message);
}

TEST(Unsupported, is_nothing_in_models_of_every_kind) {
  for (const char* architecture : {"llama", "granite", "qwen2", "qwen3", "gemma2", "phi3"})
    expect_loads(tiny(architecture));
}

TEST(Unsupported, are_weights_that_nothing_uses) {
  const auto refused = [](const std::string& architecture, const std::string& name) {
    const std::string message = "file: tensor " + name + ": no part of architecture " + architecture;
    expect_refused(tiny(architecture).tensor(name, {32}, std::vector<float>(32)), message);
    expect_refused(tiny(architecture).tensor(name, f16, {32}, std::string(64, '\0')), message);
    expect_refused(tiny(architecture).tensor(name, q8_0, {32}, std::string(34, '\0')), message);
    expect_refused(tiny(architecture).tensor(name, i32, {32}, std::string(128, '\0')), message);
  };
  for (const char* name :
       {"blk.0.attn_norm.bias", "output_norm.bias", "blk.1.attn_sinks.weight", "blk.0.attn_sub_norm.weight",
        "blk.0.ffn_gate_shexp.weight", "blk.0.ffn_down_exps.weight", "blk.0.exp_probs_b.bias",
        "blk.1.attn_norm_2.weight", "position_embd.weight", "token_types.weight", "token_embd.bias",
        "blk.0.attn_q_norm.weight", "blk.0.post_attention_norm.weight", "token_embd_norm.weight", "stray"})
    refused("llama", name);
  refused("qwen3", "blk.1.attn_q_norm.bias");
  refused("phi3", "blk.0.ffn_gate.weight");
}

// "blk.00." is a name that no layer has.
TEST(Unsupported, are_layers_past_the_last) {
  for (const char* layer : {"2", "4095", "00", "01", "+0", "-0", " 0", "0x0", "", "18446744073709551616"}) {
    const std::string name = std::string("blk.") + layer + ".attn_q.weight";
    expect_refused(tiny("llama").tensor(name, {64, 64}, std::vector<float>(64 * 64)),
                   "file: tensor " + name + ": no part of architecture llama");
  }
}

TEST(Unsupported, is_not_what_logits_do_not_depend_on) {
  const std::vector<float> ones(8, 1.0f);
  for (const char* name :
       {"rope_freqs.weight", "cls.output.weight", "blk.0.attn_q.input_scale", "blk.0.attn_rot_embd"})
    expect_loads(tiny("llama").tensor(name, {8}, ones));
  expect_loads(tiny("llama")
                   .tensor("rope_factors_long.weight", {8}, ones)
                   .tensor("rope_factors_short.weight", {8}, ones));
}

template <class T>
void expect_key(const std::string& key, const T& harmless, const T& refused, const std::string& shown) {
  const std::string architecture = key.substr(0, key.find('.'));
  expect_loads(tiny(architecture).add(key, harmless));
  expect_refused(tiny(architecture).add(key, refused), "file: " + key + " is " + shown + ", but runnel ");
}

template <class T>
void expect_expert_key(const std::string& key, const T& harmless, const T& refused,
                       const std::string& shown) {
  expect_loads(tiny("llama", 2).add(key, harmless));
  expect_refused(tiny("llama", 2).add(key, refused), "file: " + key + " is " + shown + ", but runnel ");
  expect_loads(tiny("llama").add(key, refused));  // it has no experts
}

TEST(Unsupported, are_keys_that_change_what_experts_compute) {
  for (const std::uint32_t softmax : {0u, 1u})
    expect_expert_key("llama.expert_gating_func", softmax, 2u, "2");
  expect_expert_key("llama.expert_group_count", 1u, 8u, "8");
  expect_expert_key("llama.expert_weights_norm", true, false, "false");
  for (const float none : {0.0f, 1.0f}) expect_expert_key("llama.expert_weights_scale", none, 2.5f, "2.5");
}

TEST(Unsupported, are_keys_that_change_what_is_computed) {
  expect_key("llama.attention.causal", true, false, "false");
  expect_key("qwen2.attention.causal", true, false, "false");
  expect_key("llama.attention.clamp_kqv", 0.0f, 8.0f, "8");
  expect_key("llama.attention.temperature_scale", 0.0f, 0.1f, "0.1");
  expect_key("llama.rope.scaling.alpha", 1.0f, 1000.0f, "1000");
  expect_key("qwen2.rope.scaling.yarn_attn_factor", 1.0f, 0.5f, "0.5");
  for (const float whole : {-1.0f, 1.0f}) expect_key("qwen2.rope.scaling.yarn_ext_factor", whole, 0.0f, "0");
  expect_key("qwen2.rope.scaling.yarn_log_multiplier", 0.0f, 0.1f, "0.1");
  expect_key("gemma2.attention.sliding_window_pattern", 2u, 6u, "6");
  expect_key("gemma2.rope.freq_base_swa", 10000.0f, 500000.0f, "500000");
  expect_key("granite.rope.scaling.finetuned", true, false, "false");
  expect_loads(tiny("llama").add("llama.rope.scaling.finetuned", false));
  expect_loads(tiny("qwen2").add("qwen2.rope.freq_base_swa", 500000.0f));  // no layer has a window
}

// llama.cpp's llama_model_save_to_file() writes all keys that it knows, whatever the family.
TEST(SavedByLlamaCpp, soft_caps_are_those_of_families_that_have_some) {
  for (const std::string architecture : {"llama", "granite", "qwen2", "qwen3", "gemma2", "phi3"}) {
    const std::vector<std::byte> bytes = tiny(architecture)
                                             .add(architecture + ".attn_logit_softcapping", 40.0f)
                                             .add(architecture + ".final_logit_softcapping", 20.0f)
                                             .build();
    const auto model = Model::from_memory(bytes, {}, "file");
    ASSERT_TRUE(model) << model.error().message;
    const bool has_caps = architecture == "gemma2";
    EXPECT_EQ((*model)->shape().attn_soft_cap, has_caps ? 40.0f : 0.0f) << architecture;
    EXPECT_EQ((*model)->shape().logit_soft_cap, has_caps ? 20.0f : 0.0f) << architecture;
  }
}

TEST(SavedByLlamaCpp, an_embedding_scale_of_0_is_as_if_absent) {
  for (const std::string architecture : {"llama", "granite", "gemma2"}) {
    const auto scale_of = [](const GgufBuilder& file) {
      const std::vector<std::byte> bytes = file.build();
      const auto model = Model::from_memory(bytes, {}, "file");
      EXPECT_TRUE(model) << model.error().message;
      return model ? (*model)->shape().embedding_scale : 0.0f;
    };
    const std::string key = architecture + ".embedding_scale";
    EXPECT_EQ(scale_of(tiny(architecture).add(key, 0.0f)), scale_of(tiny(architecture))) << key;
  }
}

TEST(SavedByLlamaCpp, gemma2_tells_of_each_layer_whether_it_has_a_window) {
  const auto file = [](std::vector<std::uint32_t> pattern) {
    return tiny("gemma2").add_array("gemma2.attention.sliding_window_pattern", pattern);
  };
  expect_loads(file({1, 0}));
  const std::string key = "file: gemma2.attention.sliding_window_pattern is ";
  expect_refused(file({0, 1}), key + "[0, 1], but runnel ");
  expect_refused(file({1, 1}), key + "[1, 1], but runnel ");
  expect_refused(file(std::vector<std::uint32_t>(100000)), key + "[0, 0, ");
}

TEST(Unsupported, are_files_of_something_else) {
  expect_loads(tiny("llama").add("general.type", "model"));
  for (const std::string kind : {"adapter", "imatrix"}) {
    const std::string message = "file: general.type is \"" + kind + "\", expected \"model\"";
    expect_refused(tiny("llama").add("general.type", kind), message);
    expect_refused(GgufBuilder().add("general.type", kind), message);
  }
}

TEST(Unsupported, are_parts_of_a_model) {
  expect_loads(tiny("llama").add("split.count", std::uint16_t{1}));
  const std::string message = "file: the file is one of the 3 parts (split.count) of a model";
  expect_refused(tiny("llama").add("split.count", std::uint16_t{3}), message);
  expect_refused(GgufBuilder().add("split.count", std::uint16_t{3}), message);  // any but the first
}

}  // namespace
}  // namespace runnel::test
