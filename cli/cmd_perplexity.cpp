// runnel perplexity: how well a model predicts a text, in independent chunks or in one pass through the
// stream.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "feeding.h"
#include "interrupt.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "score.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel perplexity model.gguf -f wiki.test.raw -c 512 --chunks 40\n"
    "  runnel perplexity model.gguf -f novel.txt --stream --sinks 4 --window 252\n"
    "  runnel perplexity model.gguf -f novel.txt -c 256 --buckets 20 --json\n"
    "\n"
    "In chunks (the convention of llama.cpp's tool): the text is cut into pieces of N tokens, each begins "
    "with BOS\n"
    "where the model wants one and with nothing in the cache, and the tokens of its second half are scored.\n"
    "With --stream: one pass through the cache of sinks and window; every token from the second on is "
    "scored.";

struct PerplexityOptions {
  std::string model;
  TextOptions text;
  SettingOptions settings;
  std::int64_t n_chunk = 512;   // tokens
  std::int64_t score_from = 0;  // first token of a chunk that is scored; 0: its second half
  std::int64_t n_chunks = 0;    // 0: all
  std::int64_t max_tokens = 0;  // 0: all
  std::int64_t n_buckets = 0;   // 0: the default of the mode
  bool stream = false;
  bool json = false;
};

// Bytes of memory this process holds; 0 where the system does not tell.
std::int64_t resident_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                             std::fclose);
  long long n_pages = 0;
  if (!file || std::fscanf(file.get(), "%*s %lld", &n_pages) != 1) return 0;
  return n_pages * sysconf(_SC_PAGESIZE);
}

// The scores of a text, as a whole and in equal parts by position.
class Tally {
 public:
  Tally(std::size_t n_tokens, std::int64_t n_buckets)
      : n_tokens_(n_tokens), buckets_(std::min(static_cast<std::size_t>(n_buckets), n_tokens)) {}

  // The score of the token at this position of the text.
  void add(std::size_t position, double nll) {
    Bucket& bucket = buckets_[position * buckets_.size() / n_tokens_];
    if (bucket.score.n() == 0) bucket.first_token = position;
    bucket.score.add(nll);
    bucket.last_token = position;
    total_.add(nll);
    if ((bucket.score.n() & 255) == 1) bucket.resident_bytes = resident_bytes();
  }

  const Score& total() const { return total_; }

  std::string text() const {
    std::string lines;
    for (const Bucket& bucket : buckets_) {
      if (buckets_.size() == 1 || bucket.score.n() == 0) continue;
      lines += "tokens " + std::to_string(bucket.first_token) + " to " + std::to_string(bucket.last_token) +
               ": PPL = " + fixed(bucket.score.perplexity(), 4) + "\n";
    }
    return lines + "PPL = " + fixed(total_.perplexity(), 4) + " +/- " + fixed(total_.error(), 5) + "\n";
  }

  void report(Json& out) const {
    out["n_scored"] = total_.n();
    out["nll"] = total_.mean();
    out["ppl"] = total_.perplexity();
    out["ppl_error"] = total_.error();
    out["buckets"] = Json::array();
    for (const Bucket& bucket : buckets_) {
      if (bucket.score.n() == 0) continue;
      out["buckets"].push_back({{"first_token", bucket.first_token},
                                {"last_token", bucket.last_token},
                                {"n_scored", bucket.score.n()},
                                {"nll", bucket.score.mean()},
                                {"ppl", bucket.score.perplexity()},
                                {"resident_bytes", bucket.resident_bytes}});
    }
  }

 private:
  struct Bucket {
    Score score;
    std::size_t first_token = 0, last_token = 0;
    std::int64_t resident_bytes = 0;
  };

  std::size_t n_tokens_;
  std::vector<Bucket> buckets_;
  Score total_;
};

std::string running_note(const Tally& tally) { return "PPL " + fixed(tally.total().perplexity(), 3); }

std::size_t vocabulary_size(const runnel_model* model) {
  return static_cast<std::size_t>(runnel_model_fact(model, RUNNEL_N_VOCAB));
}

// `text` is the tokens of all chunks.
void score_chunks(const runnel_model* model, runnel_session* session, const std::vector<std::int32_t>& text,
                  std::size_t n_chunk, std::size_t first_scored, Tally& tally) {
  const std::size_t n_vocab = vocabulary_size(model);
  const bool adds_bos = runnel_model_fact(model, RUNNEL_ADDS_BOS) != 0;
  const auto bos = static_cast<std::int32_t>(runnel_model_fact(model, RUNNEL_TOKEN_BOS));
  const std::size_t n_skipped = first_scored - 1;  // tokens whose logits nobody wants
  const std::size_t n_chunks = text.size() / n_chunk;
  Progress progress("perplexity", static_cast<std::int64_t>(n_chunks), "chunks");
  for (std::size_t i_chunk = 0; i_chunk < n_chunks; ++i_chunk) {
    const std::size_t start = i_chunk * n_chunk;
    std::vector<std::int32_t> chunk(text.begin() + static_cast<std::ptrdiff_t>(start),
                                    text.begin() + static_cast<std::ptrdiff_t>(start + n_chunk));
    if (adds_bos && bos >= 0) chunk[0] = bos;
    check(runnel_session_reset(session));
    if (n_skipped > 0) feed(session, chunk.data(), n_skipped);
    std::size_t i = n_skipped;  // the token just read: its logits predict the next
    const auto score = [&](const float* logits) {
      ++i;
      tally.add(start + i, negative_log_likelihood(logits, n_vocab, chunk[i]));
    };
    feed(session, chunk.data() + n_skipped, n_chunk - 1 - n_skipped, score);
    progress.update(static_cast<std::int64_t>(i_chunk + 1), running_note(tally));
  }
}

void score_stream(const runnel_model* model, runnel_session* session, const std::vector<std::int32_t>& text,
                  Tally& tally) {
  const std::size_t n_vocab = vocabulary_size(model);
  std::size_t i = 0;
  const auto score = [&](const float* logits) {
    ++i;
    if (i < text.size()) tally.add(i, negative_log_likelihood(logits, n_vocab, text[i]));
  };
  feed_with_progress(session, text, "perplexity", score, [&] { return running_note(tally); });
}

void check_options(const PerplexityOptions& options) {
  if (options.score_from >= options.n_chunk) throw UsageError("--score-from must be below the chunk (-c)");
  if (!options.stream && (options.settings.given("sinks") || options.settings.given("window"))) {
    throw UsageError("--sinks and --window go with --stream; a chunk (-c) is always seen as a whole");
  }
}

std::vector<std::int32_t> text_tokens(const PerplexityOptions& options, const runnel_model* model) {
  std::vector<std::int32_t> tokens = tokenize(model, options.text.read(), RUNNEL_ADD_BOS);
  const std::size_t n_text = tokens.size();
  const auto n_chunk = static_cast<std::size_t>(options.n_chunk);
  if (options.max_tokens > 0) tokens.resize(std::min(n_text, static_cast<std::size_t>(options.max_tokens)));
  const std::size_t n_needed = options.stream ? 2 : n_chunk;
  if (tokens.size() < n_needed) {
    throw Failure("the text has " + std::to_string(tokens.size()) + " tokens; at least " +
                  std::to_string(n_needed) + " are needed" + (options.stream ? "" : " for one chunk (-c)"));
  }
  if (options.stream) return tokens;
  std::size_t n_chunks = tokens.size() / n_chunk;
  if (options.n_chunks > 0) n_chunks = std::min(n_chunks, static_cast<std::size_t>(options.n_chunks));
  tokens.resize(n_chunks * n_chunk);
  return tokens;
}

int run_perplexity(const PerplexityOptions& options) {
  check_options(options);
  const Config config = options.settings.config();
  if (!options.stream) {
    set_setting(config.get(), "sinks", "0");
    set_setting(config.get(), "window", std::to_string(options.n_chunk));
  }
  const Model model = open_model(options.model, config.get());
  const std::vector<std::int32_t> tokens = text_tokens(options, model.get());
  const Session session = open_session(model.get(), config.get());
  const StopSession stop_on_interrupt(session.get());

  Tally tally(tokens.size(), options.n_buckets > 0 ? options.n_buckets : options.stream ? 20 : 1);
  const auto start = std::chrono::steady_clock::now();
  if (options.stream) {
    score_stream(model.get(), session.get(), tokens, tally);
  } else {
    const std::int64_t first = options.score_from > 0 ? options.score_from : options.n_chunk / 2 + 1;
    score_chunks(model.get(), session.get(), tokens, static_cast<std::size_t>(options.n_chunk),
                 static_cast<std::size_t>(first), tally);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (options.json) {
    Json out = {{"model", options.model}, {"mode", options.stream ? "stream" : "chunks"}};
    if (options.stream) {
      out["sinks"] = runnel_session_stat(session.get(), RUNNEL_STAT_PREFIX);
      out["cache_size"] = runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_SIZE);
    } else {
      out["chunk"] = options.n_chunk;
    }
    out["n_tokens"] = tokens.size();
    out["seconds"] = seconds;
    tally.report(out);
    write_json(out);
    return exit_ok;
  }
  write_out(tally.text());
  write_note(with_commas(tally.total().n()) + " tokens scored of " +
             with_commas(static_cast<std::int64_t>(tokens.size())) + " in " + fixed(seconds, 1) + " s (" +
             rate_text(static_cast<double>(tokens.size()) / std::max(seconds, 1e-6)) + " tokens/s)");
  return exit_ok;
}

}  // namespace

void add_perplexity(CLI::App& app, Run& run) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App& command = add_command(app, "perplexity", "Measure how well a model predicts a text", examples);
  add_model(command, options->model);
  options->text.add_to(command, "the text");
  command.add_option("-c,--chunk", options->n_chunk, "tokens of a chunk; default 512")
      ->type_name("N")
      ->check(whole_number(4, 1 << 24));
  command.add_option("--chunks", options->n_chunks, "score only so many chunks; default all")
      ->type_name("N")
      ->check(whole_number(1, most_tokens));
  command
      .add_option("--score-from", options->score_from,
                  "first token of a chunk that is scored, from 1; default N / 2 + 1")
      ->type_name("N")
      ->check(whole_number(1, 1 << 24));
  command.add_flag("--stream", options->stream, "one pass through the cache of sinks and window")
      ->excludes("--chunk")
      ->excludes("--chunks")
      ->excludes("--score-from");
  command
      .add_option("--max-tokens", options->max_tokens, "read only so many tokens of the text; default all")
      ->type_name("N")
      ->check(whole_number(2, most_tokens));
  command
      .add_option("--buckets", options->n_buckets,
                  "equal parts of the text to give figures for; default 20 with --stream, else 1")
      ->type_name("N")
      ->check(whole_number(1, 100'000));
  command.add_flag("--json", options->json, "figures of the whole and of each part, memory held");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  command.callback([options, &run] { run = [options] { return run_perplexity(*options); }; });
}

}  // namespace cli
