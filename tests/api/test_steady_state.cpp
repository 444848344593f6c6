// A stream that runs takes no more memory: nothing is allocated from token to token, and the process does not
// grow.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/allocations.h"
#include "tests/support/api.h"
#include "tests/support/huge_pages.h"
#include "tests/support/paths.h"

namespace {

using namespace runnel::test;

long resident_kib() {
  long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file && std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) std::fclose(file);
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

bool system_makes_huge_pages_when_asked() {
  constexpr std::size_t huge_page = std::size_t{2} * 1024 * 1024;
  constexpr int collapse = 25;  // MADV_COLLAPSE
  void* const page = std::aligned_alloc(huge_page, huge_page);
  if (page == nullptr) return false;
  std::memset(page, 1, huge_page);
  const bool makes = madvise(page, huge_page, collapse) == 0;
  std::free(page);
  return makes;
}

int ignore(void*, const char*, std::size_t, std::int32_t) { return 0; }

TEST(SteadyState, generates_without_allocating) {
  const auto model = open_model(demo_model());
  for (const char* temperature : {"0", "0.8"}) {
    const auto session = open_session(model.get(), {{"window", "124"},
                                                    {"ignore_eos", "true"},
                                                    {"temperature", temperature},
                                                    {"repetition_penalty", "1.1"},
                                                    {"stop", "never said\nnor this"}});
    require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
    require(
        runnel_session_generate(session.get(), 300, ignore, nullptr, nullptr));  // buffers take their size
    const std::size_t before = n_allocations();
    require(runnel_session_generate(session.get(), 1000, ignore, nullptr, nullptr));
    EXPECT_EQ(n_allocations() - before, 0u);
  }
}

TEST(SteadyState, exchanges_leave_without_allocating) {
  const auto model = open_model(demo_model());
  const auto session =
      open_session(model.get(), {{"window", "124"}, {"ignore_eos", "true"}, {"evict", "turn"}});
  require(runnel_session_pin(session.get(), 8));
  require(runnel_session_feed_text(session.get(), "Once upon a time", 16, RUNNEL_ADD_BOS));
  const auto exchanges = [&session](int n) {
    for (int i = 0; i < n; ++i) {
      require(runnel_session_mark_turn(session.get()));
      require(runnel_session_generate(session.get(), 30, ignore, nullptr, nullptr));
    }
  };
  exchanges(20);
  const std::size_t before = n_allocations();
  exchanges(40);
  EXPECT_EQ(n_allocations() - before, 0u);
  EXPECT_GE(runnel_session_stat(session.get(), RUNNEL_STAT_TURNS), 3);
}

TEST(SteadyState, reads_without_growing) {
  const auto model = open_model(demo_model());
  const auto session = open_session(model.get(), {{"window", "252"}});
  const std::vector<std::int32_t> tokens = some_tokens(2000);
  feed(session.get(), tokens);
  const std::size_t before = n_allocations();
  const long resident_before = resident_kib();
  for (int i = 0; i < 10; ++i) feed(session.get(), tokens);
  EXPECT_EQ(n_allocations() - before, 0u);
  EXPECT_LT(resident_kib() - resident_before, 1024);
}

TEST(SteadyState, a_full_window_comes_to_lie_in_huge_pages) {
  if (!system_makes_huge_pages_when_asked()) GTEST_SKIP() << "this system makes no huge pages when asked";
  const auto model = open_model(demo_model());
  const long usual = huge_kib();
  const auto session = open_session(model.get(), {{"window", "2044"}, {"cache", "f32"}});  // 12 MB
  const std::vector<std::int32_t> tokens(2000, 300);
  feed(session.get(), tokens);
  const long before = huge_kib();
  if (before > usual) GTEST_SKIP() << "this system makes huge pages unasked";
  for (std::size_t i = 0; i < 100; ++i)
    require(runnel_session_feed(session.get(), tokens.data(), 1, nullptr, nullptr));
  EXPECT_GE(huge_kib() - before, 8 * 1024);
}

}  // namespace
