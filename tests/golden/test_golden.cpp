// Logits of tiny models of every family against those llama.cpp computes: ../shared/golden.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/support/api.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel::test;

struct Golden {
  std::vector<std::int32_t> tokens;
  std::size_t n_vocab = 0;
  std::vector<float> logits;
};

// u32 n_tokens, u32 n_vocab, i32 tokens[n_tokens], f32 logits[n_tokens][n_vocab]
Golden read_golden(const std::string& path) {
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

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, logits) {
  const std::string base = std::string("golden/") + GetParam();
  RUNNEL_NEEDS_SHARED(base + ".logits");
  const Golden golden = read_golden(shared(base + ".logits"));
  const ModelHandle model = open_model(shared(base + ".gguf"));
  for (std::size_t i = 0; const char* isa = runnel_isa_available(i); ++i) {
    std::vector<float> first_batch, first_steps;
    for (const char* threads : {"1", "2"}) {
      SCOPED_TRACE(std::string(isa) + ", threads " + threads);
      const auto session = open_session(model.get(), {{"isa", isa}, {"threads", threads}, {"cache", "f32"}});
      const auto batch = feed_for_logits(session.get(), golden.n_vocab, golden.tokens);
      require(runnel_session_reset(session.get()));
      std::vector<float> steps;
      for (const std::int32_t token : golden.tokens) {
        const auto row = feed_for_logits(session.get(), golden.n_vocab, {token});
        steps.insert(steps.end(), row.begin(), row.end());
      }
      ASSERT_EQ(batch.size(), golden.logits.size());
      const double batch_error = nmse(batch.data(), golden.logits.data(), batch.size());
      EXPECT_LT(batch_error, 1e-6);
      EXPECT_LT(nmse(steps.data(), golden.logits.data(), steps.size()), 1e-6);
      EXPECT_LT(nmse(steps.data(), batch.data(), steps.size()), 1e-9);
      if (threads[0] == '1') {
        std::printf("%-14s %-8s NMSE %.2g, step by step against in one batch %.2g\n", GetParam(), isa,
                    batch_error, nmse(steps.data(), batch.data(), steps.size()));
        first_batch = batch;
        first_steps = steps;
      }
      // The same bits at any number of threads.
      EXPECT_EQ(batch, first_batch);
      EXPECT_EQ(steps, first_steps);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(families, GoldenTest, testing::ValuesIn(golden_models), name_of_parameter);

}  // namespace
