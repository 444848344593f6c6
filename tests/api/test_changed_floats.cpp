// A host that has changed how its threads compute: rounding, traps. Results are the same, and so is the host
// afterwards.
#include <gtest/gtest.h>

#include <cfenv>
#include <vector>

#include "tests/support/api.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

struct Results {
  std::vector<float> logits;
  std::vector<std::int32_t> text;  // sampled

  bool operator==(const Results&) const = default;
};

class ChangedFloats : public testing::Test {
 protected:
  void SetUp() override { std::fegetenv(&before_); }
  void TearDown() override { std::fesetenv(&before_); }

  Results results(const char* n_threads) {
    const auto model = open_model(demo_model(), {{"int8", "true"}});
    const auto session = open_session(
        model.get(), {{"threads", n_threads}, {"temperature", "1.5"}, {"seed", "3"}, {"cache", "int8"}});
    const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
    const std::vector<std::int32_t> tokens = tokenize(model.get(), "The water runs down to the sea.", 0);
    Results results{feed_for_logits(session.get(), n_vocab, tokens), {}};
    for (int i = 0; i < 20; ++i) {
      std::int32_t token = -1;
      require(runnel_session_sample(session.get(), &token));
      require(runnel_session_feed(session.get(), &token, 1, nullptr, nullptr));
      results.text.push_back(token);
    }
    return results;
  }

 private:
  std::fenv_t before_{};
};

TEST_F(ChangedFloats, rounding_of_the_host) {
  const Results expected = results("1");
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    for (const char* n_threads : {"1", "2", "3"}) {
      std::fesetround(rounding);
      EXPECT_TRUE(results(n_threads) == expected) << "rounding " << rounding << ", threads " << n_threads;
      EXPECT_EQ(std::fegetround(), rounding);
    }
  }
}

// What is raised meanwhile is not the host's, and no signal comes of it.
TEST_F(ChangedFloats, traps_and_flags_of_the_host) {
  const Results expected = results("2");
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_DIVBYZERO);
#if defined(__GLIBC__) && defined(__x86_64__)  // not all ARM processors can
  feenableexcept(FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
  EXPECT_TRUE(results("2") == expected);
#if defined(__GLIBC__) && defined(__x86_64__)
  EXPECT_EQ(fedisableexcept(FE_ALL_EXCEPT), FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
}

}  // namespace
