// Models in memory that are packed as int8 when they are opened: what they are made from stays as it is, and
// the packed model is the one that the same file gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/api.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

const Settings int8 = {{"int8", "true"}, {"threads", "2"}};

std::vector<float> some_logits(const runnel_model* model) {
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model, RUNNEL_N_VOCAB));
  const auto session = open_session(model, {{"threads", "1"}, {"window", "64"}});
  return feed_for_logits(session.get(), n_vocab, {1, 5, 9, 33});
}

TEST(Int8InMemory, leaves_the_memory_of_the_caller_alone) {
  constexpr std::size_t page = 4096;  // a model's matrices are whole pages of it
  const std::string file = read_bytes(demo_model());
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(page, (file.size() + page - 1) / page * page)), std::free);
  std::memcpy(memory.get(), file.data(), file.size());
  runnel_model* m = nullptr;
  require(runnel_model_open_memory(memory.get(), file.size(), config(int8).get(), &m));
  const ModelHandle from_memory(m, runnel_model_close);
  EXPECT_EQ(std::memcmp(memory.get(), file.data(), file.size()), 0);
  EXPECT_TRUE(some_logits(m) == some_logits(open_model(demo_model(), int8).get()));
}

TEST(Int8InMemory, synthetic_models_are_those_of_their_files) {
  const Folder folder;
  const std::string path = folder.file("synthetic.gguf");
  for (const char* type : {"f16", "q8_0"}) {
    runnel_model* m = nullptr;
    require(runnel_model_synthetic("stories260k", type, 1, config(int8).get(), nullptr, nullptr, &m));
    const ModelHandle in_memory(m, runnel_model_close);
    require(runnel_synthesize("stories260k", type, 1, path.c_str(), nullptr, nullptr, nullptr));
    EXPECT_TRUE(some_logits(m) == some_logits(open_model(path, int8).get())) << type;
  }
}

// One share of the whole: making and packing are its halves.
TEST(Int8InMemory, progress_of_synthetic_models_goes_forward) {
  std::vector<double> shares;
  const auto note = [](void* to, double share) {
    static_cast<std::vector<double>*>(to)->push_back(share);
    return 0;
  };
  runnel_model* m = nullptr;
  require(runnel_model_synthetic("stories260k", "f16", 1, config(int8).get(), note, &shares, &m));
  runnel_model_close(m);
  ASSERT_GT(shares.size(), 2u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_LT(shares.front(), 0.5);
  EXPECT_EQ(shares.back(), 1.0);
}

}  // namespace
