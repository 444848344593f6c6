#include "tally.h"

#include <algorithm>
#include <cmath>

#include "console.h"
#include "memory.h"

namespace cli {
namespace {

std::string microseconds(double us) { return us < 1000 ? fixed(us, 1) + " us" : fixed(us / 1000, 2) + " ms"; }

}  // namespace

Tally::Tally(std::int64_t n_tokens, std::int64_t n_buckets, std::int64_t n_text)
    : n_tokens_(n_tokens),
      buckets_(static_cast<std::size_t>(std::min(n_buckets, n_tokens))),
      first_pass_(n_text < n_tokens ? static_cast<std::size_t>(n_text) : 0, NAN) {}

std::size_t Tally::bucket_of(std::int64_t position) const {
  return static_cast<std::size_t>(position) * buckets_.size() / static_cast<std::size_t>(n_tokens_);
}

void Tally::add(std::int64_t position, double nll, std::int64_t i_text) {
  Bucket& bucket = buckets_[bucket_of(position)];
  if (bucket.score.n() == 0) bucket.first_token = position;
  bucket.score.add(nll);
  bucket.last_token = position;
  total_.add(nll);
  if (!first_pass_.empty()) {
    float& first = first_pass_[static_cast<std::size_t>(i_text)];
    if (std::isnan(first)) first = static_cast<float>(nll);
    bucket.first_pass.add(static_cast<double>(first));
  }
  if ((bucket.score.n() & 255) == 1) end_bytes_ = bucket.resident_bytes = resident_bytes();
}

void Tally::Times::add(Elapsed elapsed) {
  wall.add(elapsed.ns);
  cpu.add(elapsed.cpu_ns);
}

void Tally::add_time(std::int64_t position, Elapsed elapsed) {
  const std::size_t i = bucket_of(position);
  ++buckets_[i].n_timed;
  buckets_[i].ns += elapsed.ns;
  times_.add(elapsed);
  if (i == 0) first_times_.add(elapsed);
  if (i + 1 == buckets_.size()) last_times_.add(elapsed);
}

void Tally::settled() {
  if (settled_bytes_ == 0) settled_bytes_ = resident_bytes();
}

// ---- for people

std::string Tally::bucket_text(const Bucket& bucket) const {
  std::string line = "tokens " + std::to_string(bucket.first_token) + " to " +
                     std::to_string(bucket.last_token) + ": PPL = " + fixed(bucket.score.perplexity(), 4);
  if (!first_pass_.empty()) line += ", " + signed_percent(bucket.drift()) + " to the first pass";
  if (bucket.n_timed > 0) line += ", " + microseconds(bucket.us()) + " a token";
  return line + "\n";
}

std::string Tally::timing_text() const {
  if (times_.wall.n() == 0) return "";
  const auto spread = [](const Latency& l) {
    const double median = l.quantile_us(0.5), most = l.quantile_us(0.999);
    return "median " + microseconds(median) + ", 99 % " + microseconds(l.quantile_us(0.99)) + ", 99.9 % " +
           microseconds(most) + " (" + fixed(most / median, 2) + " medians), longest " +
           microseconds(l.max_us()) + "\n";
  };
  const auto change = [](double first, double last) {
    return microseconds(first) + " to " + microseconds(last) + " (" + signed_percent(last / first - 1) + ")";
  };
  std::string lines =
      "time of a token: " + spread(times_.wall) + "processor time of a token: " + spread(times_.cpu);
  if (last_times_.wall.n() > 0) {  // else the pass was ended before
    lines += "from the first part to the last: median " +
             change(first_times_.wall.quantile_us(0.5), last_times_.wall.quantile_us(0.5)) + ", mean " +
             change(first_times_.wall.mean_us(), last_times_.wall.mean_us()) + ", processor time " +
             change(first_times_.cpu.mean_us(), last_times_.cpu.mean_us()) + "\n";
  }
  return lines;
}

std::string Tally::memory_text() const {
  if (settled_bytes_ == 0) return "";
  return "memory: " + bytes_text(settled_bytes_) + " when the window was full, " + bytes_text(end_bytes_) +
         " at the end (" + with_commas((end_bytes_ - settled_bytes_) / 1024) + " KiB more)\n";
}

std::string Tally::note() const { return "PPL " + fixed(total_.perplexity(), 3); }

std::string Tally::text() const {
  std::string lines;
  for (const Bucket& bucket : buckets_)
    if (buckets_.size() > 1 && bucket.score.n() > 0) lines += bucket_text(bucket);
  return lines + "PPL = " + fixed(total_.perplexity(), 4) + " +/- " + fixed(total_.error(), 5) + "\n" +
         timing_text() + memory_text();
}

// ---- for scripts

Json Tally::Times::report() const {
  Json out = wall.report();
  out["cpu"] = cpu.report();
  return out;
}

Json Tally::bucket_report(const Bucket& bucket) const {
  Json out = {{"first_token", bucket.first_token}, {"last_token", bucket.last_token},
              {"n_scored", bucket.score.n()},      {"nll", bucket.score.mean()},
              {"ppl", bucket.score.perplexity()},  {"resident_bytes", bucket.resident_bytes}};
  if (!first_pass_.empty()) out["first_pass_ppl"] = bucket.first_pass.perplexity();
  if (bucket.n_timed > 0) out["token_us"] = bucket.us();
  return out;
}

void Tally::report(Json& out) const {
  out["n_scored"] = total_.n();
  out["nll"] = total_.mean();
  out["ppl"] = total_.perplexity();
  out["ppl_error"] = total_.error();
  if (times_.wall.n() > 0) {
    out["latency"] = times_.report();
    out["latency_first_bucket"] = first_times_.report();
    out["latency_last_bucket"] = last_times_.report();
  }
  if (settled_bytes_ > 0) {
    out["resident_bytes_full_window"] = settled_bytes_;
    out["resident_bytes_end"] = end_bytes_;
  }
  out["buckets"] = Json::array();
  for (const Bucket& bucket : buckets_)
    if (bucket.score.n() > 0) out["buckets"].push_back(bucket_report(bucket));
}

}  // namespace cli
