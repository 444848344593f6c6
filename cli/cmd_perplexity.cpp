// runnel perplexity: how well a model predicts a text, in independent chunks or in one pass through the
// stream.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "chunks.h"
#include "commands.h"
#include "console.h"
#include "divergence.h"
#include "errors.h"
#include "interrupt.h"
#include "json.h"
#include "model_path.h"
#include "options.h"
#include "output_file.h"
#include "session_notes.h"
#include "settings.h"
#include "stopwatch.h"
#include "stream_comparison.h"
#include "stream_reading.h"
#include "tally.h"

namespace cli {
namespace {

constexpr const char* examples =
    R"(  runnel perplexity model.gguf -f wiki.test.raw -c 512 --chunks 40
  runnel perplexity model.gguf -f novel.txt --stream --sinks 4 --window 252
  runnel perplexity model.gguf -f novel.txt --stream --tokens 4000000 --buckets 40 --latency --json
  runnel perplexity model.gguf -f novel.txt --compare --window 124 --tokens 20000 --svg lines.svg
  runnel perplexity model.gguf -f novel.txt -c 256 --buckets 20 --json
  runnel perplexity model-i8.gguf -f wiki.test.raw --kl-divergence --base model-f32.gguf

In chunks (the convention of llama.cpp's tool): the text is cut into pieces of N tokens, each begins with BOS
where the model wants one and with nothing in the cache, and the tokens of its second half are scored.
With --stream: one pass through the cache of sinks and window; every token from the second on is scored.
With --tokens the text starts over when it ends; each part is then also set against the same tokens in the
first pass. With --latency tokens go in one by one, and the times they take are told.
With --compare: the stream with 0 (window only), 1, 2, 4 and 8 sinks, all with sinks + window tokens in view,
beside recomputation: for every scored token an empty session reads the last tokens of the text anew, as many
as are in view, the first of them being BOS where the model wants one (and in a line of its own, without BOS).
Scored is what comes after the window is full.
With --kl-divergence: the same chunks through two models; how far the predictions of MODEL are from those of
the base, which runs as its file has it and with an f32 cache.
Ctrl-C ends a pass, in chunks or --stream, and what was scored until then is told. Of a comparison that is
not complete nothing is told: its lines would not be of the same tokens.)";

struct PerplexityOptions {
  std::string model;
  TextOptions text;
  SettingOptions settings;
  std::int64_t n_chunk = 512;   // tokens
  std::int64_t score_from = 0;  // first token of a chunk that is scored; 0: its second half
  std::int64_t n_chunks = 0;    // 0: all
  std::int64_t max_tokens = 0;  // 0: all
  std::int64_t n_buckets = 0;   // 0: the default of the mode
  std::int64_t n_stream = 0;    // tokens to stream; 0: the text once
  bool parse_special = false;
  bool stream = false;
  bool latency = false;
  bool compare = false;
  std::int64_t every = 0;  // 0: the default
  std::string svg;         // picture of the comparison
  bool json = false;
  bool divergence = false;
  std::string base;  // model to measure the divergence from

  std::int64_t first_scored() const { return score_from > 0 ? score_from : n_chunk / 2 + 1; }
  bool is_stream() const { return stream || compare; }
};

void check_modes(const PerplexityOptions& options) {
  if (options.divergence != !options.base.empty())
    throw UsageError("--kl-divergence and --base MODEL go together");
  if (options.score_from >= options.n_chunk) throw UsageError("--score-from must be below the chunk (-c)");
  if (!options.is_stream() && (options.settings.given("sinks") || options.settings.given("window"))) {
    throw UsageError(
        "--sinks and --window go with --stream or --compare; a chunk (-c) is always seen as a whole");
  }
  if (!options.is_stream() && options.n_stream > 0)
    throw UsageError("--tokens goes with --stream or --compare");
}

std::vector<std::int32_t> text_tokens(const PerplexityOptions& options, const std::string& text,
                                      const runnel_model* model) {
  std::vector<std::int32_t> tokens = tokenize(
      model, text, RUNNEL_ADD_BOS | (options.parse_special ? RUNNEL_PARSE_SPECIAL : RUNNEL_TEXT_ONLY));
  const std::size_t n_text = tokens.size();
  const auto n_chunk = static_cast<std::size_t>(options.n_chunk);
  if (options.max_tokens > 0) tokens.resize(std::min(n_text, static_cast<std::size_t>(options.max_tokens)));
  const std::size_t n_needed = options.is_stream() ? 2 : n_chunk;
  if (tokens.size() < n_needed) {
    throw Failure(length_text(tokens.size(), tokens.size() < n_text) + "; at least " +
                  std::to_string(n_needed) + " are needed" +
                  (options.is_stream() ? "" : " for one chunk (-c)"));
  }
  if (options.is_stream()) return tokens;
  std::size_t n_chunks = tokens.size() / n_chunk;
  if (options.n_chunks > 0) n_chunks = std::min(n_chunks, static_cast<std::size_t>(options.n_chunks));
  tokens.resize(n_chunks * n_chunk);
  return tokens;
}

// A pass over the text, which Ctrl-C may have ended early: what was scored until then is told all the same.
struct Pass {
  double seconds;
  bool interrupted;
};

Pass timed_pass(const std::function<void()>& score) {
  const Stopwatch watch;
  bool interrupted = false;
  try {
    score();
  } catch (const Interrupted&) {
    interrupted = true;
  }
  return {watch.seconds(), interrupted};
}

// Throws Interrupted where nothing was scored.
int exit_code_of(const Pass& pass, std::int64_t n_scored) {
  if (!pass.interrupted) return exit_ok;
  if (n_scored == 0) throw Interrupted{};
  return exit_code_of_interrupt();
}

void note_scored(const Pass& pass, std::int64_t n_scored, std::int64_t n_tokens) {
  const std::string scored = counted(n_scored, "token") + " scored of " + with_commas(n_tokens) + " in " +
                             fixed(pass.seconds, 1) + " s";
  if (pass.interrupted) {
    write_note(scored + ", when Ctrl-C ended it");
  } else {
    write_note(scored + " (" + rate_text(static_cast<double>(n_tokens) / std::max(pass.seconds, 1e-6)) +
               " tokens/s)");
  }
}

void report(const Pass& pass, std::int64_t n_tokens, Json& out) {
  out["n_tokens"] = n_tokens;
  out["seconds"] = pass.seconds;
  out["interrupted"] = pass.interrupted;
}

// How the base runs: as the model does, but with its weights as they are and an f32 cache.
Config base_config(const runnel_config* config) {
  Config base = new_config();
  for (const char* name : {"threads", "isa", "batch", "sinks", "window"})
    set_setting(base.get(), name, runnel_config_get(config, name));
  set_setting(base.get(), "cache", "f32");
  return base;
}

int run_divergence(const PerplexityOptions& options, const runnel_model* model, const runnel_config* config,
                   const std::string& text, const std::vector<std::int32_t>& tokens) {
  const Config config_of_base = base_config(config);
  const Model base = open_model(options.base, config_of_base.get());
  expect_seen("--chunk", options.n_chunk, most_seen(base.get()), base.get());
  if (vocabulary_size(base.get()) != vocabulary_size(model) ||
      text_tokens(options, text, base.get()) != tokens)
    throw Failure(options.base + " and " + options.model + " have different vocabularies");
  const Session base_session = open_session(base.get(), config_of_base.get());
  const Session session = open_session(model, config);
  const StopSession stop_on_interrupt(session.get(), base_session.get());
  const Chunks chunks(model, tokens, static_cast<std::size_t>(options.n_chunk),
                      static_cast<std::size_t>(options.first_scored()));
  Divergence divergence(options.base);
  const Pass pass =
      timed_pass([&] { compare_chunks(model, base_session.get(), session.get(), chunks, divergence); });
  const int exit_code = exit_code_of(pass, divergence.n());
  const auto n_tokens = static_cast<std::int64_t>(tokens.size());
  if (!options.json) {
    write_out(divergence.text());
    note_scored(pass, divergence.n(), n_tokens);
    return exit_code;
  }
  Json out = {{"model", options.model},
              {"mode", "kl-divergence"},
              {"base", options.base},
              {"chunk", options.n_chunk}};
  report(pass, n_tokens, out);
  divergence.report(out);
  write_json(out);
  return exit_code;
}

LoopedText looped_text(const PerplexityOptions& options, const runnel_model* model,
                       std::vector<std::int32_t> tokens) {
  std::int64_t n = options.n_stream;
  if (n == 0) n = static_cast<std::int64_t>(tokens.size());
  if (options.n_stream == 0 && options.compare) n = std::min(n, default_compared);
  return {std::move(tokens), bos_of(model), n};
}

int run_comparison(const PerplexityOptions& options, const runnel_model* model,
                   std::vector<std::int32_t> tokens) {
  const LoopedText text = looped_text(options, model, std::move(tokens));
  ComparisonPlan plan;
  if (options.every > 0) plan.every = options.every;
  if (options.n_buckets > 0) plan.n_buckets = options.n_buckets;
  const Comparison comparison(model, options.settings, text, plan);
  const auto figures = [&] {
    if (!options.json) return write_out(comparison.text());
    Json out = {{"model", options.model}, {"mode", "compare"}};
    comparison.report(out);
    write_json(out);
  };
  const auto pictures = [&] {
    if (options.svg.empty()) return;
    const std::string name = std::filesystem::path(options.model).filename().string();
    write_file(options.svg, to_svg(comparison.picture(name)));
  };
  write_figures_and_pictures(figures, pictures);
  return exit_ok;
}

// What it gives: in JSON after what is particular to the mode.
int write_result(const PerplexityOptions& options, const Tally& tally, std::int64_t n_tokens,
                 const Pass& pass, Json out) {
  const int exit_code = exit_code_of(pass, tally.total().n());
  if (options.json) {
    report(pass, n_tokens, out);
    tally.report(out);
    write_json(out);
    return exit_code;
  }
  write_out(tally.text());
  note_scored(pass, tally.total().n(), n_tokens);
  return exit_code;
}

int run_stream(const PerplexityOptions& options, const runnel_model* model, const runnel_config* config,
               std::vector<std::int32_t> tokens) {
  const LoopedText text = looped_text(options, model, std::move(tokens));
  const Session session = open_session(model, config);
  note_untrained_window(model, session.get());
  const StopSession stop_on_interrupt(session.get());
  Tally tally(text.n(), options.n_buckets > 0 ? options.n_buckets : 20, text.n_once());
  const Pass pass = timed_pass([&] { score_stream(model, session.get(), text, options.latency, tally); });
  return write_result(options, tally, text.n(), pass,
                      {{"model", options.model},
                       {"mode", "stream"},
                       {"sinks", runnel_session_stat(session.get(), RUNNEL_STAT_PREFIX)},
                       {"cache_size", runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_SIZE)},
                       {"cache", runnel_config_get(config, "cache")},
                       {"n_text", text.n_once()}});
}

int run_chunks(const PerplexityOptions& options, const runnel_model* model, const runnel_config* config,
               const std::vector<std::int32_t>& tokens) {
  const Session session = open_session(model, config);
  note_untrained_window(model, session.get());
  const StopSession stop_on_interrupt(session.get());
  const auto n_tokens = static_cast<std::int64_t>(tokens.size());
  Tally tally(n_tokens, std::max<std::int64_t>(options.n_buckets, 1));
  const Chunks chunks(model, tokens, static_cast<std::size_t>(options.n_chunk),
                      static_cast<std::size_t>(options.first_scored()));
  const Pass pass = timed_pass([&] { score_chunks(model, session.get(), chunks, tally); });
  return write_result(options, tally, n_tokens, pass,
                      {{"model", options.model}, {"mode", "chunks"}, {"chunk", options.n_chunk}});
}

int run_perplexity(PerplexityOptions options) {
  check_modes(options);
  options.model = model_or_bundled(options.model);
  refuse_same_file(options.svg, options.model, "model");
  if (options.text.file != "-") refuse_same_file(options.svg, options.text.file, "text");
  if (!options.svg.empty()) expect_writable(options.svg);
  const Config config = options.settings.config();
  if (!options.is_stream()) {
    set_setting(config.get(), "sinks", "0");
    set_setting(config.get(), "window", std::to_string(options.n_chunk));
  }
  const std::string text = options.text.read();
  const Model model = open_model(options.model, config.get());
  if (!options.is_stream()) expect_seen("--chunk", options.n_chunk, most_seen(model.get()), model.get());
  std::vector<std::int32_t> tokens = text_tokens(options, text, model.get());
  return naming_model(options.model, [&] {
    if (options.compare) return run_comparison(options, model.get(), std::move(tokens));
    if (options.stream) return run_stream(options, model.get(), config.get(), std::move(tokens));
    if (options.divergence) return run_divergence(options, model.get(), config.get(), text, tokens);
    return run_chunks(options, model.get(), config.get(), tokens);
  });
}

// --stream, --compare and what goes with them: neither is in chunks.
void add_stream_options(CLI::App& command, PerplexityOptions& options) {
  CLI::Option* stream =
      add_flag(command, "--stream", options.stream, "one pass through the cache of sinks and window");
  exclude(stream, {"--chunk", "--chunks", "--score-from"});
  CLI::Option* compare = add_flag(command, "--compare", options.compare,
                                  "the stream with some numbers of sinks beside recomputing its window");
  exclude(compare, {"--chunk", "--chunks", "--score-from", "--stream"});
  add_count(command, "--tokens", options.n_stream, 2, 1'000'000'000'000,
            "tokens to stream; the text starts over when it ends; default the text once, with --compare "
            "its first 8192");
  need(add_flag(command, "--latency", options.latency, "with --stream: read tokens one by one and time each"),
       "--stream");
  need(add_count(command, "--every", options.every, 1, 1 << 24,
                 "with --compare: recompute the window for every N-th token and score only that; default 8"),
       "--compare");
  need(add_output(command, "--svg", options.svg, "with --compare: draw the lines into this file"),
       "--compare");
}

}  // namespace

void add_perplexity(CLI::App& app, Run& run) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App& command = add_command(app, "perplexity", "Measure how well a model predicts a text", examples);
  add_optional_model(command, options->model);
  options->text.add_to(command, "the text");
  add_flag(command, "--parse-special", options->parse_special,
           "special tokens spelled in the text, as <|end|>, are those tokens");
  add_count(command, "-c,--chunk", options->n_chunk, 4, 1 << 24, "tokens of a chunk; default 512");
  add_count(command, "--chunks", options->n_chunks, 1, most_tokens, "score only so many chunks; default all");
  add_count(command, "--score-from", options->score_from, 1, 1 << 24,
            "first token of a chunk that is scored, from 1; default N / 2 + 1");
  add_stream_options(command, *options);
  add_count(command, "--max-tokens", options->max_tokens, 2, most_tokens,
            "read only so many tokens of the text; default all");
  add_count(command, "--buckets", options->n_buckets, 1, 100'000,
            "equal parts of the text to give figures for; default 20 with --stream or --compare, else 1");
  CLI::Option* divergence = add_flag(command, "--kl-divergence", options->divergence,
                                     "how far the predictions are from those of --base");
  exclude(divergence, {"--stream", "--compare", "--buckets"});
  add_file(command, "--base", options->base, "MODEL", "the model to compare with, with the same vocabulary");
  add_flag(command, "--json", options->json, "figures of the whole and of each part, memory held");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  on_command(command, run, [options] { return run_perplexity(*options); });
}

}  // namespace cli
