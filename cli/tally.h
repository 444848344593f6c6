// The scores of a text, as a whole and in equal parts by position, and what reading it took.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "json.h"
#include "latency.h"
#include "score.h"

namespace cli {

class Tally {
 public:
  // Of n_tokens, of which n_text make the text, which starts over when it ends; n_text >= n_tokens: it is
  // read once. All memory is taken here.
  Tally(std::int64_t n_tokens, std::int64_t n_buckets, std::int64_t n_text);
  Tally(std::int64_t n_tokens, std::int64_t n_buckets) : Tally(n_tokens, n_buckets, n_tokens) {}

  // The score of the token at this position, which is this one of the text.
  void add(std::int64_t position, double nll, std::int64_t i_text);
  void add(std::int64_t position, double nll) { add(position, nll, position); }
  // The time that reading the token at this position took.
  void add_time(std::int64_t position, Elapsed elapsed);
  // From here on memory should not grow: the cache is full. The first call counts.
  void settled();

  const Score& total() const { return total_; }
  std::string note() const;  // the perplexity so far, for a progress bar
  std::string text() const;
  void report(Json& out) const;

 private:
  struct Bucket {
    Score score;
    Score first_pass;  // of the same tokens, when the text was read for the first time
    std::int64_t first_token = 0, last_token = 0;
    std::int64_t resident_bytes = 0;
    std::int64_t n_timed = 0, ns = 0;

    double us() const { return static_cast<double>(ns) / static_cast<double>(n_timed) / 1e3; }
    double drift() const { return score.perplexity() / first_pass.perplexity() - 1; }
  };
  std::size_t bucket_of(std::int64_t position) const;
  std::string bucket_text(const Bucket& bucket) const;
  struct Times {
    Latency wall, cpu;

    void add(Elapsed elapsed);
    Json report() const;
  };
  std::string timing_text() const;
  std::string memory_text() const;
  Json bucket_report(const Bucket& bucket) const;

  std::int64_t n_tokens_;
  std::vector<Bucket> buckets_;
  // [n_text] scores of the text's tokens when they were first scored, NaN before; empty when it is read once.
  // Without BOS the very first token is scored only when the text starts over.
  std::vector<float> first_pass_;
  Score total_;
  Times times_, first_times_, last_times_;  // of all tokens, of the first and of the last bucket
  std::int64_t settled_bytes_ = 0;          // resident when the cache was full; 0: it never was
  std::int64_t end_bytes_ = 0;
};

}  // namespace cli
