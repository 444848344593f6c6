// The models of ../shared/golden: one of each family that runnel runs, and one with experts.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace runnel::test {

inline constexpr const char* golden_models[] = {"llama-dense",  "llama-moe",  "qwen2-dense", "qwen3-dense",
                                                "gemma2-dense", "phi3-dense", "gpt2-dense",  "granite-dense",
                                                "falcon-dense", "bloom-dense"};

// What a test with one of them is called.
inline std::string name_of_golden(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace runnel::test
