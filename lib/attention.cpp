#include "lib/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace runnel {
namespace {

// Scores are held for a run of keys at a time, in rows of so many.
constexpr std::size_t score_stride = KeyRun::max;
constexpr std::size_t tile_queries = 32;  // queries that share one pass over the keys
// A single token's keys are dealt to the threads in splits of so many slots of the ring, whatever the number
// of threads: whole runs, which follow each other in memory. What each split leaves for the end is written
// and read again, so there should be few.
constexpr std::size_t split = 4 * KeyRun::max;

constexpr float infinity = std::numeric_limits<float>::infinity();

// ALiBi's slopes (Press et al. 2022, section 3; heads that are no power of two as in its code).
std::vector<float> alibi_slopes(std::size_t n_head, float max_bias) {
  std::size_t n_regular = 1;
  while (n_regular * 2 <= n_head) n_regular *= 2;
  const double base = std::pow(2.0, -static_cast<double>(max_bias) / static_cast<double>(n_regular));
  const double half_base = std::pow(2.0, -static_cast<double>(max_bias) / 2 / static_cast<double>(n_regular));
  std::vector<float> slopes(n_head);
  for (std::size_t h = 0; h < n_head; ++h)
    slopes[h] =
        static_cast<float>(h < n_regular ? std::pow(base, static_cast<double>(h + 1))
                                         : std::pow(half_base, static_cast<double>(2 * (h - n_regular) + 1)));
  return slopes;
}

std::size_t n_splits(std::size_t n_slots) { return std::max<std::size_t>(1, divided_up(n_slots, split)); }

std::size_t group_of(const Shape& shape) { return shape.n_head / shape.n_head_kv; }
std::size_t max_rows_of(std::size_t group) { return std::max(group, tile_queries / group * group); }

// Floats for the partial results of a split query.
std::size_t n_partial(const Shape& shape, const CacheSize& size) {
  const std::size_t splits = n_splits(static_cast<std::size_t>(size.n_prefix + size.window + size.batch));
  return splits > 1 ? shape.n_head * splits * (shape.head_dim_v + 2) : 0;
}

// What any token of a run of tokens sees.
Visible together(const Visible& a, const Visible& b) {
  return {std::min(a.prefix_begin, b.prefix_begin), std::max(a.prefix_end, b.prefix_end),
          std::min(a.window_begin, b.window_begin), std::max(a.window_end, b.window_end)};
}

// do_task(i) for each of n tasks; large ones are taken one at a time.
template <class DoTask>
void share_tasks(Thread& thread, std::size_t n, bool are_large, DoTask do_task) noexcept {
  const std::size_t n_pieces = are_large ? divided_up(n, thread.count()) : 1;
  thread.share({.n = n, .n_pieces = n_pieces}, [&](const Piece& piece) {
    for (std::size_t i = piece.items.begin; i < piece.items.end; ++i) do_task(i);
  });
}

// Asks for the scales of the next run, which lie behind this one's. So few lines at a time are read of them
// that the processor does not see where they go on.
void fetch_next_scales(const CachedNumbers& numbers) {
  constexpr std::size_t line = cache_line / sizeof(float);
  for (std::size_t i = 0; i < KeyRun::max; i += line) __builtin_prefetch(numbers.scales + KeyRun::max + i);
}

// Cached numbers that the int8 kernels leave to be prefetched during the softmax: the last of n bytes from
// `begin` on.
class Unfetched {
 public:
  Unfetched(const simd::Kernels& kernels, const CachedNumbers& numbers, std::size_t begin, std::size_t n,
            std::size_t n_rows)
      : n_lines_(numbers.type == CacheType::i8 ? kernels.unfetched_i8(n, n_rows) / cache_line : 0),
        n_rows_(n_rows),
        first_(numbers.data + begin + n - n_lines_ * cache_line) {}

  // A row's share of them.
  void fetch(std::size_t row) const {
    for (std::size_t i = n_lines_ * row / n_rows_; i < n_lines_ * (row + 1) / n_rows_; ++i)
      __builtin_prefetch(first_ + i * cache_line, 0, 2);  // into the L2 cache
  }

 private:
  std::size_t n_lines_, n_rows_;
  const std::byte* first_;
};

// Of the next run's keys.
Unfetched unfetched_keys(const simd::Kernels& kernels, const KeyRun& run, std::size_t dim,
                         std::size_t n_rows) {
  const std::size_t key_bytes = filled_up(dim, simd::dot_bytes);
  const std::size_t n_keys = run.n_key_blocks() * simd::block_keys;
  return {kernels, run.keys, KeyRun::max * key_bytes, n_keys * key_bytes, n_rows};
}
// Of this run's values.
Unfetched unfetched_values(const simd::Kernels& kernels, const KeyRun& run, std::size_t dim,
                           std::size_t n_rows) {
  return {kernels, run.values, 0, (run.skip_values() + run.n) * dim, n_rows};
}

}  // namespace

Attention::Attention(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                     std::size_t n_threads)
    : model_(model),
      kernels_(kernels),
      group_(group_of(model.shape())),
      max_rows_(max_rows_of(group_)),
      partial_(n_partial(model.shape(), size)) {
  const Shape& shape = model.shape();
  if (model.family().positions == Positions::alibi)
    slopes_ = alibi_slopes(shape.n_head, shape.alibi_max_bias);
  resize_team(n_threads);
}

std::size_t Attention::n_bytes(const Model& model, const CacheSize& size, std::size_t n_threads) {
  const Shape& shape = model.shape();
  const std::size_t row = 2 * shape.head_dim + score_stride + shape.head_dim_v + 4;  // of Scratch, in floats
  return (n_threads * max_rows_of(group_of(shape)) * row + n_partial(shape, size)) * sizeof(float);
}

void Attention::resize_team(std::size_t n_threads) {
  scratch_.resize(n_threads);
  for (Scratch& s : scratch_) {
    s.q_window.resize(max_rows_ * model_.shape().head_dim);
    s.q_prefix.resize(max_rows_ * model_.shape().head_dim);
    s.scores.resize(max_rows_ * score_stride);
    s.mixed.resize(max_rows_ * model_.shape().head_dim_v);
    s.max.resize(max_rows_);
    s.sum.resize(max_rows_);
    s.prefix_max.resize(max_rows_);
    s.prefix_sum.resize(max_rows_);
  }
}

void Attention::run(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
                    Rows out) noexcept {
  if (queries.n_tok == 1 && !observer_ &&
      n_splits(cache.n_slots(layer, cache.visible(layer, queries.first))) > 1)
    run_split(thread, cache, layer, queries, out);
  else
    run_tiles(thread, cache, layer, queries, out);
  thread.barrier();
}

// A task is a KV head and as many tokens as make a tile.
void Attention::run_tiles(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
                          Rows out) noexcept {
  const Shape& shape = model_.shape();
  const std::size_t n_tiles = divided_up(queries.n_tok, tile_tokens());
  Scratch& s = scratch_[thread.index()];
  share_tasks(thread, shape.n_head_kv * n_tiles, queries.n_tok > 1, [&](std::size_t task) {
    const std::size_t first_token = task % n_tiles * tile_tokens();
    const std::size_t n_tokens = std::min(tile_tokens(), queries.n_tok - first_token);
    const Tile tile{task / n_tiles, first_token, n_tokens, n_tokens * group_, &queries};
    const std::int64_t first = queries.first + static_cast<std::int64_t>(tile.first_token);
    const Visible all = together(cache.visible(layer, first),
                                 cache.visible(layer, first + static_cast<std::int64_t>(tile.n_tokens) - 1));
    load_queries(tile, s);
    attend(cache, layer, tile, all, {0, cache.n_slots(layer, all)}, s);
    if (observer_) show_prefix_mass(layer, tile, s);
    for (std::size_t r = 0; r < tile.n_rows; ++r) {
      const std::size_t head = tile.head_kv * group_ + r % group_;
      float* y = out.data + (tile.first_token + r / group_) * out.stride + head * shape.head_dim_v;
      const float* mixed = s.mixed.data() + r * shape.head_dim_v;
      const float inverse = 1.0f / s.sum[r];
      for (std::size_t i = 0; i < shape.head_dim_v; ++i) y[i] = mixed[i] * inverse;
    }
  });
}

// One token with many keys: a task is a KV head and a split of the keys, the prefix with the first; the
// partial results are then joined in order.
void Attention::run_split(Thread& thread, const KvCache& cache, std::size_t layer, const Queries& queries,
                          Rows out) noexcept {
  const Shape& shape = model_.shape();
  const std::size_t dim = shape.head_dim_v, partial_size = dim + 2;
  const Visible all = cache.visible(layer, queries.first);
  const std::size_t splits = n_splits(cache.n_slots(layer, all));
  const auto partial = [&](std::size_t head, std::size_t i) {
    return partial_.data() + (head * splits + i) * partial_size;
  };
  Scratch& s = scratch_[thread.index()];
  share_tasks(thread, shape.n_head_kv * splits, true, [&](std::size_t task) {
    const std::size_t i = task % splits;
    const Tile tile{task / splits, 0, 1, group_, &queries};
    load_queries(tile, s);
    attend(cache, layer, tile, all, {i * split, (i + 1) * split}, s);
    for (std::size_t r = 0; r < group_; ++r) {
      float* p = partial(tile.head_kv * group_ + r, i);
      std::copy_n(s.mixed.data() + r * dim, dim, p);
      p[dim] = s.max[r];
      p[dim + 1] = s.sum[r];
    }
  });
  thread.barrier();
  const Range heads = thread.split(shape.n_head);
  for (std::size_t head = heads.begin; head < heads.end; ++head) {
    float max = -infinity, sum = 0;
    for (std::size_t i = 0; i < splits; ++i) max = std::max(max, partial(head, i)[dim]);
    float* y = out.data + head * dim;
    std::fill_n(y, dim, 0.0f);
    for (std::size_t i = 0; i < splits; ++i) {
      const float* p = partial(head, i);
      const float weight = std::exp(p[dim] - max);
      sum += weight * p[dim + 1];
      kernels_.add_scaled(y, p, weight, dim);
    }
    kernels_.scale(y, 1.0f / sum, dim);
  }
}

void Attention::show_prefix_mass(std::size_t layer, const Tile& tile, const Scratch& s) const noexcept {
  for (std::size_t r = 0; r < tile.n_rows; ++r) {
    const std::int64_t position =
        tile.queries->first + static_cast<std::int64_t>(tile.first_token + r / group_);
    const float mass = s.prefix_sum[r] * std::exp(s.prefix_max[r] - s.max[r]) / s.sum[r];
    observer_->see_prefix_mass(layer, tile.head_kv * group_ + r % group_, position, mass);
  }
}

void Attention::load_queries(const Tile& tile, Scratch& s) noexcept {
  const Shape& shape = model_.shape();
  const std::size_t dim = shape.head_dim;
  for (std::size_t r = 0; r < tile.n_rows; ++r) {
    const std::size_t token = tile.first_token + r / group_;
    const std::size_t at = (tile.head_kv * group_ + r % group_) * dim;
    const Queries& q = *tile.queries;
    std::copy_n(q.window.data + token * q.window.stride + at, dim, s.q_window.data() + r * dim);
    std::copy_n(q.prefix.data + token * q.prefix.stride + at, dim, s.q_prefix.data() + r * dim);
  }
  kernels_.scale(s.q_window.data(), shape.attention_scale, tile.n_rows * dim);
  kernels_.scale(s.q_prefix.data(), shape.attention_scale, tile.n_rows * dim);
  std::fill_n(s.max.begin(), tile.n_rows, -infinity);
  std::fill_n(s.sum.begin(), tile.n_rows, 0.0f);
  std::fill_n(s.mixed.begin(), tile.n_rows * shape.head_dim_v, 0.0f);
}

void Attention::attend(const KvCache& cache, std::size_t layer, const Tile& tile, const Visible& all,
                       Range slots, Scratch& s) noexcept {
  if (slots.begin == 0) attend_prefix(cache, layer, tile, all, s);
  for (const PositionRange& part : cache.window_in(layer, all, slots)) {
    for (std::int64_t i = part.begin; i < part.end;) {
      const KeyRun run = cache.window_run(layer, tile.head_kv, i, part.end);
      attend_run(cache, layer, tile, run, false, i, s);
      i += static_cast<std::int64_t>(run.n);
    }
  }
}

void Attention::attend_prefix(const KvCache& cache, std::size_t layer, const Tile& tile, const Visible& all,
                              Scratch& s) noexcept {
  for (std::int64_t i = all.prefix_begin; i < all.prefix_end;) {
    const KeyRun run = cache.prefix_run(layer, tile.head_kv, i, all.prefix_end);
    attend_run(cache, layer, tile, run, true, i, s);
    i += static_cast<std::int64_t>(run.n);
  }
  if (observer_) {
    s.prefix_max = s.max;
    s.prefix_sum = s.sum;
  }
}

void Attention::attend_run(const KvCache& cache, std::size_t layer, const Tile& tile, const KeyRun& run,
                           bool is_prefix, std::int64_t first_key, Scratch& s) noexcept {
  const std::size_t dim_v = model_.shape().head_dim_v;
  score(run, is_prefix ? s.q_prefix.data() : s.q_window.data(), tile.n_rows, s.scores.data());
  float* const scores = s.scores.data() + run.skip;
  adjust_scores(cache, layer, tile, run.n, is_prefix, first_key, scores);
  const Unfetched next_keys = unfetched_keys(kernels_, run, model_.shape().head_dim, tile.n_rows);
  const Unfetched values = unfetched_values(kernels_, run, dim_v, tile.n_rows);
  for (std::size_t r = 0; r < tile.n_rows; ++r) {
    next_keys.fetch(r);
    values.fetch(r);
    const float shrink = kernels_.softmax_step(scores + r * score_stride, run.n, &s.max[r], &s.sum[r]);
    if (shrink != 1.0f) kernels_.scale(s.mixed.data() + r * dim_v, shrink, dim_v);
  }
  mix(run, scores, tile.n_rows, s.mixed.data());
}

void Attention::score(const KeyRun& run, const float* q, std::size_t n_rows, float* scores) const noexcept {
  const std::size_t dim = model_.shape().head_dim;
  const std::size_t n_blocks = run.n_key_blocks();
  const std::byte* const keys = run.keys.data;
  switch (run.keys.type) {
    case CacheType::f32:
      return kernels_.scores_f32(scores, score_stride, q, dim, n_rows, reinterpret_cast<const float*>(keys),
                                 n_blocks, dim);
    case CacheType::f16:
      return kernels_.scores_f16(scores, score_stride, q, dim, n_rows,
                                 reinterpret_cast<const simd::F16*>(keys), n_blocks, dim);
    case CacheType::i8:
      fetch_next_scales(run.keys);
      return kernels_.scores_i8(scores, score_stride, q, dim, n_rows,
                                reinterpret_cast<const std::int8_t*>(keys), run.keys.scales, n_blocks, dim);
  }
}

void Attention::mix(const KeyRun& run, float* weights, std::size_t n_rows, float* mixed) const noexcept {
  const std::size_t dim = model_.shape().head_dim_v;
  const std::byte* const values = run.values.data;
  switch (run.values.type) {
    case CacheType::f32:
      return kernels_.mix_f32(mixed, dim, weights, score_stride, n_rows,
                              reinterpret_cast<const float*>(values), run.n, dim);
    case CacheType::f16:
      return kernels_.mix_f16(mixed, dim, weights, score_stride, n_rows,
                              reinterpret_cast<const simd::F16*>(values), run.n, dim);
    case CacheType::i8:
      return mix_i8(run, weights, n_rows, mixed);
  }
}

// From the start of the block that the first value lies in, whose others weigh nothing.
void Attention::mix_i8(const KeyRun& run, float* weights, std::size_t n_rows, float* mixed) const noexcept {
  const std::size_t dim = model_.shape().head_dim_v, skip = run.skip_values();
  fetch_next_scales(run.values);
  for (std::size_t r = 0; r < n_rows; ++r) {
    float* const row = weights + r * score_stride;
    kernels_.mul(row, run.values.scales + skip, run.n);
    std::fill(row - skip, row, 0.0f);
  }
  kernels_.mix_i8(mixed, dim, weights - skip, score_stride, n_rows,
                  reinterpret_cast<const std::int8_t*>(run.values.data), skip + run.n, dim);
}

// Soft cap, distance bias, and the mask: a token of the tile sees a part of the run.
void Attention::adjust_scores(const KvCache& cache, std::size_t layer, const Tile& tile, std::size_t n_keys,
                              bool is_prefix, std::int64_t first_key, float* tile_scores) const noexcept {
  const float cap = model_.shape().attn_soft_cap;
  for (std::size_t t = 0; t < tile.n_tokens; ++t) {
    const std::int64_t position = tile.queries->first + static_cast<std::int64_t>(tile.first_token + t);
    const Range keys = seen(cache.visible(layer, position), is_prefix, first_key, n_keys);
    // ALiBi's distance is one of cache positions; inside the window that is one of positions.
    const std::int64_t distance = (is_prefix ? cache.cache_position(position) : position) - first_key;
    for (std::size_t g = 0; g < group_; ++g) {
      float* scores = tile_scores + (t * group_ + g) * score_stride;
      if (cap > 0) kernels_.soft_cap(scores, cap, n_keys);
      if (!slopes_.empty()) {
        const float slope = slopes_[tile.head_kv * group_ + g];
        for (std::size_t j = 0; j < n_keys; ++j)
          scores[j] -= slope * static_cast<float>(distance - static_cast<std::int64_t>(j));
      }
      std::fill(scores, scores + keys.begin, -infinity);
      std::fill(scores + keys.end, scores + n_keys, -infinity);
    }
  }
}

// Which of the n_keys from first_key on are visible, counted from first_key.
Range Attention::seen(const Visible& v, bool is_prefix, std::int64_t first_key,
                      std::size_t n_keys) const noexcept {
  const auto n = static_cast<std::int64_t>(n_keys);
  const std::int64_t begin = (is_prefix ? v.prefix_begin : v.window_begin) - first_key;
  const std::int64_t end = (is_prefix ? v.prefix_end : v.window_end) - first_key;
  const auto first = static_cast<std::size_t>(std::clamp<std::int64_t>(begin, 0, n));
  return {first, std::max(first, static_cast<std::size_t>(std::clamp<std::int64_t>(end, 0, n)))};
}

}  // namespace runnel
