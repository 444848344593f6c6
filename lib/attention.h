// Causal attention over the cache by online softmax in runs of keys (Dao et al. 2022, FlashAttention): no
// score matrix, each key and value read once for all the query heads that share it.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/aligned.h"
#include "lib/kv_cache.h"
#include "lib/linear/linear.h"
#include "lib/model.h"
#include "lib/observer.h"
#include "lib/system/parallel.h"

namespace runnel {

// A batch of queries: n_tok tokens from position `first` on.
struct Queries {
  ConstRows window;  // [n_tok, n_head * head_dim], rotated at their positions
  ConstRows prefix;  // the same, rotated at their cache positions
  std::int64_t first;
  std::size_t n_tok;
};

class Attention {
 public:
  Attention(const Model& model, const simd::Kernels& kernels, const CacheSize& size, std::size_t n_threads);
  static std::size_t n_bytes(const Model& model, const CacheSize& size, std::size_t n_threads);

  // out: [n_tok, n_head * head_dim_v]. All threads of the team take part; ends in a barrier.
  void run(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
           Rows out) noexcept;

  // How many tokens, from the batch's first on, are worked on together.
  std::size_t tile_tokens() const { return max_rows_ / group_; }

  void set_observer(Observer* observer) { observer_ = observer; }
  void resize_team(std::size_t n_threads);

 private:
  // The queries one thread works on at a time: some tokens times the heads of one group, as rows of a matrix.
  struct Tile {
    std::size_t head_kv, first_token, n_tokens, n_rows;
    const Queries* queries;
  };
  struct Scratch {
    AlignedVector<float> q_window, q_prefix;      // [max_rows, head_dim], scaled
    AlignedVector<float> scores;                  // [max_rows, KeyRun::max]
    AlignedVector<float> mixed;                   // [max_rows, head_dim_v]
    AlignedVector<float> max, sum;                // [max_rows]
    AlignedVector<float> prefix_max, prefix_sum;  // the same when the prefix was seen; for the observer
  };

  void run_tiles(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
                 Rows out) noexcept;
  void run_split(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
                 Rows out) noexcept;
  void load_queries(const Tile& tile, Scratch& s) noexcept;
  // The part of `all` that lies in some slots of the ring, the prefix with the first of them.
  void attend(const KvCache& cache, std::size_t layer, const Tile& tile, const Visible& all, Range slots,
              Scratch& s) noexcept;
  void attend_prefix(const KvCache& cache, std::size_t layer, const Tile& tile, const Visible& all,
                     Scratch& s) noexcept;
  void attend_run(const KvCache& cache, std::size_t layer, const Tile& tile, const KeyRun& run,
                  bool is_prefix, std::int64_t first_key, Scratch& s) noexcept;
  void score(const KeyRun& run, const float* q, std::size_t n_rows, float* scores) const noexcept;
  void adjust_scores(const KvCache& cache, std::size_t layer, const Tile& tile, std::size_t n_keys,
                     bool is_prefix, std::int64_t first_key, float* scores) const noexcept;
  void mix(const KeyRun& run, float* weights, std::size_t n_rows, float* mixed) const noexcept;
  void mix_i8(const KeyRun& run, float* weights, std::size_t n_rows, float* mixed) const noexcept;
  Range seen(const Visible& v, bool is_prefix, std::int64_t first_key, std::size_t n_keys) const noexcept;

  void show_prefix_mass(std::size_t layer, const Tile& tile, const Scratch& s) const noexcept;

  const Model& model_;
  const simd::Kernels& kernels_;
  Observer* observer_ = nullptr;
  std::size_t group_;  // query heads that share one KV head
  std::size_t max_rows_;
  std::vector<float> slopes_;     // ALiBi, [n_head]; empty without
  std::vector<Scratch> scratch_;  // one a thread
  std::vector<float> partial_;    // [n_head, n_splits, head_dim_v + 2] of a split query
};

}  // namespace runnel
