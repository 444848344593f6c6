// A host that forks: threads are not inherited, and what waits for them would wait for ever.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/api.h"
#include "tests/support/child.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

TEST(ForkedProcess, works_alone_and_to_the_same_logits) {
  const auto model = open_model(demo_model());
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));
  const std::vector<std::int32_t> tokens = tokenize(model.get(), "The water runs down to the sea.", 0);
  const auto session = open_session(model.get(), {{"threads", "4"}});
  const std::vector<float> expected = feed_for_logits(session.get(), n_vocab, tokens);
  const auto in_child = [&] {
    require(runnel_session_reset(session.get()));
    const bool same = feed_for_logits(session.get(), n_vocab, tokens) == expected;
    const auto fresh = open_session(model.get(), {{"threads", "8"}});
    return same && feed_for_logits(fresh.get(), n_vocab, tokens) == expected ? 0 : 1;
  };
  EXPECT_EQ(exit_code_of_child(in_child), 0);
  require(runnel_session_reset(session.get()));  // the parent still has its threads
  EXPECT_EQ(feed_for_logits(session.get(), n_vocab, tokens), expected);
}

}  // namespace
