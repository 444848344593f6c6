// The definition of the stream (slow_decoder.h) against llama.cpp, whose logits lie in ../shared/golden.
// Sessions are held to the definition; where llama.cpp reads GELU from a table (tests/golden), only the
// definition can come so near to it that a mistake in attention, of which these models have little, is seen.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/stream/models.h"
#include "tests/stream/slow_decoder.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/support/test_names.h"

namespace {

using namespace runnel;
using namespace runnel::test;

class Definition : public testing::TestWithParam<const char*> {};

TEST_P(Definition, is_what_llama_cpp_computes) {
  const std::string base = std::string("golden/") + GetParam();
  RUNNEL_NEEDS_SHARED(base + ".logits");
  const Golden expected = read_golden(shared(base + ".logits"));
  const auto model = golden(GetParam());
  SlowDecoder slow(*model, 0, golden_context);
  slow.use_gelu_table();
  std::vector<double> logits;
  for (const Token token : expected.tokens) {
    const std::vector<double> next = slow.read(token);
    logits.insert(logits.end(), next.begin(), next.end());
  }
  ASSERT_EQ(logits.size(), expected.logits.size());
  const double error = nmse(logits.data(), expected.logits.data(), logits.size());
  std::printf("%-14s NMSE %.2g\n", GetParam(), error);
  const bool has_gelu = model->family().activation == Activation::gelu;
  EXPECT_LT(error,
            has_gelu ? 1e-9 : 1e-11);  // a number beside a step of the table may be rounded to either side
}

INSTANTIATE_TEST_SUITE_P(families, Definition, testing::ValuesIn(golden_models), name_of_parameter);

}  // namespace
