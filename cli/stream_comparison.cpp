#include "stream_comparison.h"

#include <algorithm>
#include <set>
#include <utility>

#include "console.h"
#include "errors.h"
#include "feeding.h"
#include "interrupt.h"
#include "progress.h"
#include "settings.h"

namespace cli {
namespace {

constexpr std::int64_t compared_sinks[] = {0, 1, 2, 4, 8};

std::string stream_name(std::int64_t sinks) {
  if (sinks == 0) return "window only";
  return std::to_string(sinks) + (sinks == 1 ? " sink" : " sinks");
}

Config sized_config(const SettingOptions& settings, std::int64_t sinks, std::int64_t window) {
  Config config = settings.config();
  set_setting(config.get(), "sinks", std::to_string(sinks));
  set_setting(config.get(), "window", std::to_string(window));
  return config;
}

std::string milliseconds(double us) { return fixed(us / 1000, 3) + " ms"; }

}  // namespace

Comparison::Comparison(const runnel_model* model, const SettingOptions& settings, const LoopedText& text,
                       const ComparisonPlan& plan)
    : model_(model), settings_(settings), text_(text), plan_(plan) {
  const Session own = open_session(model, settings.config().get());
  sinks_ = runnel_session_stat(own.get(), RUNNEL_STAT_PREFIX);
  cache_size_ = runnel_session_stat(own.get(), RUNNEL_STAT_CACHE_SIZE);
  if (text.n() < cache_size_ + plan.every)
    throw Failure("the stream has " + counted(text.n(), "token") +
                  " (--tokens; without it the text once, and " + with_commas(default_compared) +
                  " of it at most); to compare, it must have " + with_commas(cache_size_ + plan.every) +
                  " or more, for " + with_commas(cache_size_) + " fill sinks and window and --every is " +
                  with_commas(plan.every) + ": give a larger --tokens, or a smaller --window or --every");
  std::set<std::int64_t> sinks(std::begin(compared_sinks), std::end(compared_sinks));
  sinks.insert(sinks_);
  for (const std::int64_t s : sinks)
    if (s < cache_size_) lines_.push_back(stream(s));
  const std::int32_t bos = bos_of(model);
  if (bos >= 0) lines_.push_back(recompute(-1));
  lines_.push_back(recompute(bos));
}

Comparison::Line Comparison::new_line(std::string name, std::int64_t sinks) const {
  const std::int64_t n_buckets = std::min(plan_.n_buckets, text_.n() - cache_size_);
  return {std::move(name), sinks, {}, std::vector<Score>(static_cast<std::size_t>(n_buckets)), {}};
}

// The logits predict the i-th token.
void Comparison::score(Line& line, std::int64_t i, const float* logits) const {
  const double nll = negative_log_likelihood(logits, vocabulary_size(model_), text_[i]);
  const auto n_buckets = static_cast<std::int64_t>(line.buckets.size());
  line.score.add(nll);
  line.buckets[static_cast<std::size_t>((i - cache_size_) * n_buckets / (text_.n() - cache_size_))].add(nll);
}

Comparison::Line Comparison::stream(std::int64_t sinks) const {
  Line line = new_line(stream_name(sinks), sinks);
  const Session session = open_session(model_, sized_config(settings_, sinks, cache_size_ - sinks).get());
  const StopSession stop_on_interrupt(session.get());
  Progress progress(line.name, text_.n(), "tokens");
  for (std::int64_t i = 0; i + 1 < text_.n(); ++i) {
    const Elapsed elapsed = time_token(session.get(), text_[i]);
    if (i + 1 >= cache_size_) line.latency.add(elapsed.ns);
    if (is_scored(i + 1)) score(line, i + 1, runnel_session_logits(session.get()));
    progress.update(i + 1);
  }
  return line;
}

Comparison::Line Comparison::recompute(std::int32_t bos) const {
  Line line = new_line(bos < 0 && bos_of(model_) >= 0 ? "recomputed without BOS" : "recomputed", -1);
  const Session session = open_session(model_, sized_config(settings_, 0, cache_size_).get());
  const StopSession stop_on_interrupt(session.get());
  Progress progress(line.name, text_.n(), "tokens");
  std::vector<std::int32_t> window(static_cast<std::size_t>(cache_size_));
  for (std::int64_t i = cache_size_; i < text_.n(); ++i) {
    if (!is_scored(i)) continue;
    for (std::int64_t j = 0; j < cache_size_; ++j)
      window[static_cast<std::size_t>(j)] = text_[i - cache_size_ + j];
    if (bos >= 0) window[0] = bos;
    const Stopwatch watch;
    check(runnel_session_reset(session.get()));
    feed(session.get(), window.data(), window.size());
    line.latency.add(watch.elapsed().ns);
    score(line, i, runnel_session_logits(session.get()));
    progress.update(i);
  }
  return line;
}

const Comparison::Line& Comparison::streaming() const {
  return *std::find_if(lines_.begin(), lines_.end(), [this](const Line& l) { return l.sinks == sinks_; });
}

double Comparison::speed_up() const {
  return recomputed().latency.quantile_us(0.5) / streaming().latency.quantile_us(0.5);
}

std::string Comparison::text() const {
  std::string out = counted(cache_size_, "token") + " in view, " + with_commas(text_.n()) + " streamed, " +
                    (plan_.every == 1 ? "every one" : "one in " + with_commas(plan_.every)) +
                    " past the first " + with_commas(cache_size_) +
                    " scored: " + with_commas(recomputed().score.n()) + "\n\n" + left_aligned("", 22) +
                    right_aligned("PPL", 12) + right_aligned("to recomputed", 16) +
                    right_aligned("time a token", 16) + "\n";
  for (const Line& line : lines_) {
    const double ratio = line.score.perplexity() / recomputed().score.perplexity() - 1;
    out += left_aligned(line.name, 22) + right_aligned(fixed(line.score.perplexity(), 4), 12) +
           right_aligned(signed_percent(ratio), 16) +
           right_aligned(milliseconds(line.latency.quantile_us(0.5)), 16) + "\n";
  }
  return out + "\nstreaming a token with " + stream_name(sinks_) + " is " + fixed(speed_up(), 1) +
         " times as fast as recomputing its window (medians)\n";
}

void Comparison::report(Json& out) const {
  out["cache_size"] = cache_size_;
  out["sinks"] = sinks_;
  out["n_tokens"] = text_.n();
  out["every"] = plan_.every;
  out["n_scored"] = recomputed().score.n();
  out["speed_up"] = speed_up();
  out["lines"] = Json::array();
  for (const Line& line : lines_) {
    Json buckets = Json::array();
    for (const Score& bucket : line.buckets) buckets.push_back(bucket.n() > 0 ? Json(bucket.mean()) : Json());
    out["lines"].push_back({{"name", line.name},
                            {"sinks", line.sinks < 0 ? Json() : Json(line.sinks)},
                            {"nll", line.score.mean()},
                            {"ppl", line.score.perplexity()},
                            {"ppl_error", line.score.error()},
                            {"to_recomputed", line.score.perplexity() / recomputed().score.perplexity()},
                            {"latency", line.latency.report()},
                            {"bucket_nll", std::move(buckets)}});
  }
}

LineChart Comparison::picture(const std::string& model_name) const {
  LineChart chart;
  chart.title = "A stream through a window of " + counted(cache_size_, "token");
  chart.subtitle = model_name + ": log perplexity along the text; lower is better";
  chart.x_label = "tokens";
  chart.y_label = "log perplexity";
  const auto add = [&](const Line& line, double stroke_width) {
    LineChart::Line drawn{line.name + ", PPL " + fixed(line.score.perplexity(), 2), {}, stroke_width};
    const auto n_buckets = static_cast<double>(line.buckets.size());
    const auto n_past = static_cast<double>(text_.n() - cache_size_);
    for (std::size_t i = 0; i < line.buckets.size(); ++i) {
      const double middle =
          static_cast<double>(cache_size_) + n_past * (static_cast<double>(i) + 0.5) / n_buckets;
      if (line.buckets[i].n() > 0) drawn.points.push_back({middle, line.buckets[i].mean()});
    }
    chart.lines.push_back(std::move(drawn));
  };
  add(lines_.front(), 2);
  add(recomputed(), 7);
  add(streaming(), 1.5);
  return chart;
}

}  // namespace cli
