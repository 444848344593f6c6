// Logits of tiny models of every family against those llama.cpp computes: ../shared/golden.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "tests/support/api.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/support/paths.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel::test;

// Sums of floats in another order are up to 5e-13 apart. With GELU it is 1.5e-7, for llama.cpp looks that up
// by a half float in a table of half floats; tests/stream/test_definition.cpp does so too and sees what this
// hides.
double max_error(std::string_view model) {
  const bool has_gelu =
      model == "gemma2-dense" || model == "gpt2-dense" || model == "falcon-dense" || model == "bloom-dense";
  return has_gelu ? 3e-7 : 1e-11;
}

std::string window(std::string_view model) {
  return model == "phi3-dense" ? std::to_string(golden_context) : "0";  // 0: what it is trained for
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
      const auto session = open_session(
          model.get(),
          {{"isa", isa}, {"threads", threads}, {"cache", "f32"}, {"window", window(GetParam())}});
      const auto batch = feed_for_logits(session.get(), golden.n_vocab, golden.tokens);
      require(runnel_session_reset(session.get()));
      std::vector<float> steps;
      for (const std::int32_t token : golden.tokens) {
        const auto row = feed_for_logits(session.get(), golden.n_vocab, {token});
        steps.insert(steps.end(), row.begin(), row.end());
      }
      ASSERT_EQ(batch.size(), golden.logits.size());
      const double batch_error = nmse(batch.data(), golden.logits.data(), batch.size());
      EXPECT_LT(batch_error, max_error(GetParam()));
      EXPECT_LT(nmse(steps.data(), golden.logits.data(), steps.size()), max_error(GetParam()));
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
