// Threads that work through one batch together: a parallel region; even shares of the rows, with work
// stealing among the threads that are done; barriers.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/range.h"
#include "lib/system/workers.h"

namespace runnel {

// Meeting point of a fixed number of threads. Spins, since the wait is mostly a microsecond, then yields its
// core in case another thread of the team has none.
class Barrier {
 public:
  void wait(std::size_t n_threads) noexcept;

 private:
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
};

// The pieces of one thread's part of some work, for it and for whoever is done with its own.
class Pile {
 public:
  // The number of a piece that nobody has taken yet, of n; n: all are taken. `work` counts what the team has
  // shared. A thread goes on to the next work when it has seen all piles of this one empty, so that a pile
  // that holds later work is empty in this.
  std::size_t take(std::uint32_t work, std::size_t n) noexcept;
  void clear() noexcept { state_.store(0, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<std::uint64_t> state_{0};  // work, how many are taken: 32 bits each
};

// Work for a team: n items, of which each thread has a part, cut at a multiple of `multiple`, of the same
// size as others' or one multiple less. The part is cut into pieces after multiples of `piece_multiple`,
// which is one of `multiple`.
struct SharedWork {
  std::size_t n;
  std::size_t multiple = 1;
  std::size_t n_pieces = 1;  // of each part; 1: nobody takes from the others
  std::size_t piece_multiple = multiple;
};

// Items to work on, and those that this thread most likely goes on with.
struct Piece {
  Range items, next;
};

// One thread's view of its team inside a region.
class Thread {
 public:
  Thread(Barrier& barrier, Pile* piles, std::size_t index, std::size_t count) noexcept
      : barrier_(barrier), piles_(piles), index_(index), count_(count) {}

  std::size_t index() const noexcept { return index_; }
  std::size_t count() const noexcept { return count_; }
  void barrier() noexcept { barrier_.wait(count_); }

  // This thread's part of n items, maybe none; the same each time.
  Range split(std::size_t n, std::size_t multiple = 1) const noexcept {
    return part({0, n}, multiple, index_, count_);
  }

  // do_piece(piece) for one piece after the other, each of which goes to one thread, until all are taken:
  // those of this thread's part, then those that others have not come to. So a slower core does less, and
  // nobody waits for it longer than for a piece. No barrier. All threads share the same works in the same
  // order.
  template <class DoPiece>
  void share(const SharedWork& work, DoPiece do_piece) noexcept {
    ++n_shared_;
    if (work.n_pieces == 1 || count_ == 1) return do_own(work, do_piece);
    for (std::size_t i = 0; i < count_; ++i) do_pieces(work, (index_ + i) % count_, do_piece);
  }

 private:
  template <class DoPiece>
  void do_own(const SharedWork& work, DoPiece do_piece) noexcept {
    const Range own = part({0, work.n}, work.multiple, index_, count_);
    if (own.size() > 0) do_piece(Piece{own, {own.end, own.end}});
  }
  template <class DoPiece>
  void do_pieces(const SharedWork& work, std::size_t owner, DoPiece do_piece) noexcept {
    const Range all = part({0, work.n}, work.multiple, owner, count_);
    for (;;) {
      const std::size_t i = piles_[owner].take(n_shared_, work.n_pieces);
      if (i == work.n_pieces) return;
      const Range items = part(all, work.piece_multiple, i, work.n_pieces);
      if (items.size() > 0) do_piece(Piece{items, {items.end, all.end}});
    }
  }
  // The i-th of n even parts.
  static Range part(Range all, std::size_t multiple, std::size_t i, std::size_t n) noexcept;

  Barrier& barrier_;
  Pile* piles_;  // one a thread
  std::uint32_t n_shared_ = 0;
  std::size_t index_, count_;
};

// The calling thread and others of its own. n_threads >= 1.
class Team {
 public:
  explicit Team(std::size_t n_threads) : piles_(n_threads), workers_(n_threads - 1) {}

  std::size_t size() const noexcept { return piles_.size(); }
  void resize(std::size_t n_threads);

  // Runs work(thread) on every thread of the team and returns when all are done. `work` must not throw. Where
  // the system gives fewer threads the team is smaller; the result must not depend on it.
  template <class Work>
  void run(Work&& work) noexcept {
    run_region([](void* context, Thread& thread) { (*static_cast<Work*>(context))(thread); }, &work);
  }

 private:
  void run_region(void (*work)(void* context, Thread& thread), void* context) noexcept;

  Barrier barrier_;
  std::vector<Pile> piles_;  // one a thread
  Workers workers_;
};

}  // namespace runnel
