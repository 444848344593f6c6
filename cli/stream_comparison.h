// The stream beside what it stands in for: the three lines of StreamingLLM (Xiao et al. 2023, figure 3 and
// table 2) over one text and with the same number of tokens in view.
//
//   streaming       S sinks and a window of C - S tokens
//   window only     no sinks, a window of C tokens
//   recomputation   for every token the last tokens of the text are read anew by an empty session: as a text
//                   of its own, which begins with BOS where the model wants one (BOS and C - 1 tokens); and
//                   also without BOS (C tokens), which is all that a model whose sink is any first token
//                   needs
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "json.h"
#include "latency.h"
#include "options.h"
#include "score.h"
#include "stream_reading.h"
#include "svg.h"

namespace cli {

constexpr std::int64_t default_compared = 8192;  // tokens, of a longer text: recomputing is slow

struct ComparisonPlan {
  std::int64_t every = 8;       // the recomputed windows, and so the scored tokens, are this far apart
  std::int64_t n_buckets = 20;  // points of a line in the picture
};

class Comparison {
 public:
  // Runs everything, with a progress bar for each line; throws Interrupted on Ctrl-C. The settings' sinks and
  // window give the number of tokens in view and the line that counts as "streaming".
  Comparison(const runnel_model* model, const SettingOptions& settings, const LoopedText& text,
             const ComparisonPlan& plan);

  std::string text() const;
  void report(Json& out) const;
  LineChart picture(const std::string& model_name) const;

 private:
  struct Line {
    std::string name;
    std::int64_t sinks;  // -1: recomputed
    Score score;
    std::vector<Score> buckets;
    Latency latency;  // of a token: of reading it, or of reading the window for it
  };

  bool is_scored(std::int64_t i) const { return i >= cache_size_ && i % plan_.every == 0; }
  Line new_line(std::string name, std::int64_t sinks) const;
  void score(Line& line, std::int64_t i, const float* logits) const;
  Line stream(std::int64_t sinks) const;
  Line recompute(std::int32_t bos) const;
  const Line& streaming() const;
  const Line& recomputed() const { return lines_.back(); }
  double speed_up() const;

  const runnel_model* model_;
  const SettingOptions& settings_;
  const LoopedText& text_;
  ComparisonPlan plan_;
  std::int64_t sinks_, cache_size_;  // of the line "streaming", and of all
  std::vector<Line> lines_;          // window only, streaming by number of sinks, recomputation
};

}  // namespace cli
