// The models of ../shared/golden: one of each family that runnel runs, and one with experts.
#pragma once
namespace runnel::test {

inline constexpr const char* golden_models[] = {"llama-dense",  "llama-moe",  "qwen2-dense", "qwen3-dense",
                                                "gemma2-dense", "phi3-dense", "gpt2-dense",  "granite-dense",
                                                "falcon-dense", "bloom-dense"};

}  // namespace runnel::test
