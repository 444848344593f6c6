// The models of ../shared/golden: one of each family that runnel runs, and one with experts. Beside each lie
// the logits that llama.cpp computes after some tokens.
#pragma once
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace runnel::test {

inline constexpr const char* golden_models[] = {"llama-dense",  "llama-moe",  "qwen2-dense", "qwen3-dense",
                                                "gemma2-dense", "phi3-dense", "gpt2-dense",  "granite-dense",
                                                "falcon-dense", "bloom-dense"};

// llama.cpp ran them with a context of more tokens than the 128 they are trained for. That makes a difference
// with LongRoPE only (Phi 3), which has factors for either.
inline constexpr std::int32_t golden_context = 256;

struct Golden {
  std::vector<std::int32_t> tokens;
  std::size_t n_vocab = 0;
  std::vector<float> logits;
};

// u32 n_tokens, u32 n_vocab, i32 tokens[n_tokens], f32 logits[n_tokens][n_vocab]
inline Golden read_golden(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::uint32_t sizes[2] = {};
  in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  Golden g;
  g.tokens.resize(sizes[0]);
  g.n_vocab = sizes[1];
  g.logits.resize(sizes[0] * static_cast<std::size_t>(sizes[1]));
  in.read(reinterpret_cast<char*>(g.tokens.data()), static_cast<std::streamsize>(g.tokens.size() * 4));
  in.read(reinterpret_cast<char*>(g.logits.data()), static_cast<std::streamsize>(g.logits.size() * 4));
  if (!in) throw std::runtime_error("cannot read " + path);
  return g;
}

}  // namespace runnel::test
