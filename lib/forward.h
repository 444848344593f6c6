// The forward pass: tokens in, hidden states and logits out. One parallel region a batch.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/activations.h"
#include "lib/attention.h"
#include "lib/kv_cache.h"
#include "lib/linear/linear.h"
#include "lib/model.h"
#include "lib/moe.h"
#include "lib/observer.h"
#include "lib/rope.h"
#include "lib/system/parallel.h"

namespace runnel {

// Of which tokens of a batch results are wanted.
enum class Outputs { last, all };

class Forward {
 public:
  // Allocates everything a batch of up to size.batch tokens needs; running allocates nothing.
  Forward(const Model& model, const simd::Kernels& kernels, Rope rope, const CacheSize& size,
          std::size_t n_threads);

  // What that takes.
  static std::int64_t n_bytes(const Model& model, const simd::Kernels& kernels, const CacheSize& size,
                              std::size_t n_threads);

  // Reads tokens at the cache's position (which it does not advance). Ids are in range, n <= batch. False:
  // `stop` became true and the batch was given up after some layer, with part of its keys and values stored;
  // a single token never is. What the last token's result becomes does not depend on `outputs`, but for
  // models whose tokens share experts, and products in floats or bf16 whose order does.
  bool run(Team& team, KvCache& cache, std::span<const Token> tokens, Outputs outputs,
           const std::atomic<bool>* stop = nullptr) noexcept;

  // Shows what later runs compute, of all tokens; null: nothing. Borrowed.
  void set_observer(Observer* observer);

  // Logits of tokens [begin, end) of the last batch, all of whose outputs were wanted, end - begin <=
  // max_logits(): [end - begin, n_vocab].
  const float* logits(Team& team, std::size_t begin, std::size_t end) noexcept;
  // Those of the last token of the last run that was not given up, [n_vocab].
  const float* last_logits(Team& team) noexcept { return project(team, a_.last_hidden.data(), 1); }
  // Those of an earlier run, [n_vocab] as bytes; a copy that lasts until the next call of logits().
  const float* restore_logits(std::span<const std::byte> row) noexcept;
  std::size_t max_logits() const { return a_.logits.size() / model_.shape().n_vocab; }

  void resize_team(std::size_t n_threads);
  std::size_t n_threads() const { return scratch_.size(); }

 private:
  // The output matrix times n_tok rows of normalised hidden states [n_tok, n_embd] -> logits.
  const float* project(Team& team, const float* hidden, std::size_t n_tok) noexcept;
  void embed(Thread& thread) noexcept;
  void find_angles(Thread& thread) noexcept;
  void layer(Thread& thread, std::size_t i) noexcept;
  void attention(Thread& thread, std::size_t i, const Input& x) noexcept;  // -> block_out()
  void rotate_and_store(Thread& thread, std::size_t i) noexcept;
  void rotate_query(const Layer& w, std::size_t t, std::size_t head) noexcept;
  void store(std::size_t i, std::size_t t, std::size_t head_kv) noexcept;
  // Of tokens whose results nobody wants only keys and values are needed in the last layer. How many of the
  // first ones these are; stores them, and the batch goes on without these tokens.
  std::size_t n_without_output(Outputs outputs) const noexcept;
  void leave_out(Thread& thread, std::size_t i, std::size_t n) noexcept;
  struct FfnTokens {  // what a feed-forward network works on: all tokens of the batch, or those of one expert
    std::size_t layer, expert;
    const std::size_t* index;  // [n] in the batch, or null: all
    std::size_t n;
  };
  void ffn(Thread& thread, const FfnWeights& w, const Input& x, Rows y, const FfnTokens& tokens) noexcept;
  void activate(bool is_gated, Range cols, std::size_t n_tok) noexcept;
  void experts(Thread& thread, std::size_t i_layer, const Input& x) noexcept;  // -> experts_out

  void show(Thread& thread, Site site, std::size_t layer, const Buffer& rows) const noexcept;

  // y = W x: all of it with the team, or some rows (linear.h).
  void linear(Thread& thread, const Linear& w, const Input& x, Rows y, std::size_t n_tok) noexcept;
  void linear(Thread& thread, const Linear& w, Range rows, const std::byte* next, const Input& x, Rows y,
              std::size_t n_tok) noexcept;
  // Between products the tokens of a batch are shared out; a single one is every thread's own: to work on it
  // takes no longer than to wait for who does, and spares up to four of a layer's ten barriers.
  static bool is_shared_out(std::size_t n_tok) noexcept { return n_tok != 1; }
  ResidualStream& stream(const Thread& thread, std::size_t n_tok) noexcept {
    return is_shared_out(n_tok) ? a_.shared : a_.own[thread.index()];
  }
  ResidualStream& stream(const Thread& thread) noexcept { return stream(thread, tokens_.size()); }
  static Range own_tokens(const Thread& thread, std::size_t n_tok) noexcept {
    return is_shared_out(n_tok) ? thread.split(n_tok) : Range{0, 1};
  }
  bool reads_int8(std::size_t n_tok) const noexcept {
    return n_tok >= model_.weight_kinds().int8_from() && !reads_bf16(n_tok);
  }
  bool reads_bf16(std::size_t n_tok) const noexcept {
    return n_tok >= model_.weight_kinds().bf16_from(kernels_);
  }
  bool reads_int16(std::size_t n_tok) const noexcept {
    return n_tok >= model_.weight_kinds().int16_from(kernels_);
  }
  bool reads_rounded(std::size_t n_tok) const noexcept {
    return reads_int8(n_tok) || reads_bf16(n_tok) || reads_int16(n_tok);
  }
  // Rows without gaps as products read them, rounded too where one of them reads that, which is done here for
  // some tokens, or the thread's own. Others' are there after a barrier.
  Input prepare(Range tokens, ConstRows rows, std::size_t n_tok, Rounded& rounded) noexcept;
  Input prepare(Thread& thread, ConstRows rows, std::size_t n_tok, Rounded ResidualStream::*rounded) noexcept;
  // The same of rows that all threads may read already, with that barrier where there is anything to wait
  // for.
  Input prepare_all(Thread& thread, ConstRows rows, std::size_t n_tok,
                    Rounded ResidualStream::*rounded) noexcept;
  void norm(Thread& thread, const NormWeights& w, Buffer& x, Buffer& y) noexcept;  // own tokens
  // The stream's own tokens += what a block adds to them.
  void add_to_stream(Thread& thread, Buffer& added, const NormWeights& post_norm) noexcept;
  void norm_row(const NormWeights& w, const float* x, float* y, std::size_t n) const noexcept;
  void rotate(float* x, const float* angles) const noexcept;
  std::int64_t position(std::size_t t) const noexcept;

  const Model& model_;
  const simd::Kernels& kernels_;
  Rope rope_;
  Attention attention_;
  Observer* observer_ = nullptr;
  std::vector<LinearScratch> scratch_;  // one a thread

  KvCache* cache_ = nullptr;                 // of the batch at hand, as are the next ones
  std::span<const Token> tokens_;            // but for those left out
  std::int64_t first_ = 0;                   // position of the first of them
  const std::atomic<bool>* stop_ = nullptr;  // or null
  bool is_given_up_ = false;                 // written by thread 0, and read a barrier later
  bool has_evicted_ = false;  // whether queries meet the prefix at another position than their own

  Activations a_;
  Routing routing_;
};

}  // namespace runnel
