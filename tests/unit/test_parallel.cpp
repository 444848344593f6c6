// Work shared by a team: every item is done once, and nobody waits for what another could have left.
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <thread>
#include <vector>

#include "lib/system/parallel.h"

namespace runnel {
namespace {

using Sizes = std::initializer_list<std::size_t>;

// Threads of its own, so that there are as many as asked for whatever the system grants.
template <class Work>
void run_team(std::size_t n_threads, Work work) {
  Barrier barrier;
  std::vector<Pile> piles(n_threads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n_threads; ++i)
    threads.emplace_back([&, i] {
      Thread thread(barrier, piles.data(), i, n_threads);
      work(thread);
    });
  for (std::thread& thread : threads) thread.join();
}

class EachWork : public testing::TestWithParam<SharedWork> {};

// One after the other without a barrier, so that threads are in several works at once.
TEST_P(EachWork, EveryItemIsDoneOnce) {
  constexpr std::size_t n_works = 300;
  const SharedWork& work = GetParam();
  for (const std::size_t n_threads : Sizes{1, 2, 3, 7}) {
    std::vector<std::atomic<int>> done(n_works * work.n);
    run_team(n_threads, [&](Thread& thread) {
      for (std::size_t i = 0; i < n_works; ++i)
        thread.share(work, [&](const Piece& piece) {
          EXPECT_LT(piece.items.begin, piece.items.end);
          EXPECT_EQ(piece.next.begin, piece.items.end);
          EXPECT_LE(piece.next.begin, piece.next.end);
          EXPECT_LE(piece.next.end, work.n);
          EXPECT_EQ(piece.items.begin % work.multiple, 0u);
          EXPECT_TRUE(piece.items.end == work.n || piece.items.end % work.multiple == 0);
          EXPECT_TRUE(piece.next.size() == 0 || piece.items.size() % work.piece_multiple == 0);
          for (std::size_t item = piece.items.begin; item < piece.items.end; ++item)
            done[i * work.n + item].fetch_add(1);
        });
    });
    for (const std::atomic<int>& times : done) ASSERT_EQ(times, 1) << n_threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Parallel, EachWork,
                         testing::Values(SharedWork{0}, SharedWork{1, 16, 8}, SharedWork{40, 1, 1},
                                         SharedWork{40, 1, 20}, SharedWork{50, 16, 1}, SharedWork{250, 16, 3},
                                         SharedWork{256, 16, 8}, SharedWork{1000, 16, 3, 64}));

// Thread 1 does not go on from its first piece until all others are done, by somebody else.
TEST(Parallel, OthersDoWhatASlowThreadLeaves) {
  using Clock = std::chrono::steady_clock;
  const SharedWork work{.n = 64, .n_pieces = 8};
  for (const std::size_t n_threads : Sizes{2, 3}) {
    std::atomic<std::size_t> n_done{0};
    std::atomic<bool> gave_up{false};
    run_team(n_threads, [&](Thread& thread) {
      thread.share(work, [&](const Piece& piece) {
        const auto deadline = Clock::now() + std::chrono::seconds(20);
        while (thread.index() == 1 && n_done + piece.items.size() < work.n && !gave_up) {
          gave_up = Clock::now() > deadline;
          std::this_thread::yield();
        }
        n_done += piece.items.size();
      });
    });
    EXPECT_FALSE(gave_up) << n_threads << " threads";
    EXPECT_EQ(n_done, work.n);
  }
}

TEST(Parallel, EachBeginsWithItsOwnPart) {
  const SharedWork work{.n = 30, .n_pieces = 5};
  run_team(3, [&](Thread& thread) {
    bool is_first = true;
    thread.share(work, [&](const Piece& piece) {
      if (is_first) {
        EXPECT_EQ(piece.items.begin, thread.split(work.n).begin);
        thread.barrier();  // nobody goes on before
      }
      is_first = false;
    });
  });
}

TEST(Parallel, OnePieceStaysWithItsThread) {
  const SharedWork work{.n = 10};
  run_team(3, [&](Thread& thread) {
    const Range own = thread.split(work.n);
    std::size_t n_pieces = 0;
    thread.share(work, [&](const Piece& piece) {
      ++n_pieces;
      EXPECT_EQ(piece.items.begin, own.begin);
      EXPECT_EQ(piece.items.end, own.end);
      EXPECT_EQ(piece.next.size(), 0u);
    });
    EXPECT_EQ(n_pieces, 1u);
  });
}

TEST(Parallel, ATeamSharesInEveryRegionAndSize) {
  Team team(2);
  for (const std::size_t n_threads : Sizes{2, 5, 1, 3}) {
    team.resize(n_threads);
    EXPECT_EQ(team.size(), n_threads);
    for (int region = 0; region < 20; ++region) {
      std::atomic<std::size_t> n_done{0};
      team.run([&](Thread& thread) {
        thread.share({.n = 100, .n_pieces = 4}, [&](const Piece& piece) { n_done += piece.items.size(); });
      });
      ASSERT_EQ(n_done, 100u);
    }
  }
}

}  // namespace
}  // namespace runnel
