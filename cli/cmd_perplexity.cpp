// runnel perplexity: how well a model predicts a text, in independent chunks or in one pass through the
// stream.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "console.h"
#include "divergence.h"
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
    "  runnel perplexity model-i8.gguf -f wiki.test.raw --kl-divergence --base model-f32.gguf\n"
    "\n"
    "In chunks (the convention of llama.cpp's tool): the text is cut into pieces of N tokens, each begins "
    "with BOS\n"
    "where the model wants one and with nothing in the cache, and the tokens of its second half are scored.\n"
    "With --stream: one pass through the cache of sinks and window; every token from the second on is "
    "scored.\n"
    "With --kl-divergence: the same chunks through two models; how far the predictions of MODEL are from "
    "those "
    "of\n"
    "the base, which runs as its file has it and with an f32 cache.";

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
  bool divergence = false;
  std::string base;  // model to measure the divergence from

  std::int64_t first_scored() const { return score_from > 0 ? score_from : n_chunk / 2 + 1; }
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

// A text in chunks, each of which begins with BOS where the model wants one.
class Chunks {
 public:
  // `text` is the tokens of all chunks. Tokens [first_scored, n_chunk) of each are scored.
  Chunks(const runnel_model* model, const std::vector<std::int32_t>& text, std::size_t n_chunk,
         std::size_t first_scored)
      : text_(text), n_chunk_(n_chunk), first_scored_(first_scored) {
    if (runnel_model_fact(model, RUNNEL_ADDS_BOS) != 0)
      bos_ = static_cast<std::int32_t>(runnel_model_fact(model, RUNNEL_TOKEN_BOS));
  }

  std::size_t n() const { return text_.size() / n_chunk_; }
  std::size_t start(std::size_t i) const { return i * n_chunk_; }
  std::size_t n_skipped() const { return first_scored_ - 1; }  // tokens whose logits nobody wants
  std::size_t n_read() const { return n_chunk_ - 1; }          // the last one is only predicted

  std::vector<std::int32_t> tokens(std::size_t i) const {
    const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(start(i));
    std::vector<std::int32_t> chunk(begin, begin + static_cast<std::ptrdiff_t>(n_chunk_));
    if (bos_ >= 0) chunk[0] = bos_;
    return chunk;
  }

  // Reads the tokens before the scored ones into an emptied session.
  void begin(runnel_session* session, const std::vector<std::int32_t>& chunk) const {
    check(runnel_session_reset(session));
    if (n_skipped() > 0) feed(session, chunk.data(), n_skipped());
  }

 private:
  const std::vector<std::int32_t>& text_;
  std::size_t n_chunk_, first_scored_;
  std::int32_t bos_ = -1;
};

void score_chunks(const runnel_model* model, runnel_session* session, const Chunks& chunks, Tally& tally) {
  const std::size_t n_vocab = vocabulary_size(model);
  Progress progress("perplexity", static_cast<std::int64_t>(chunks.n()), "chunks");
  for (std::size_t i_chunk = 0; i_chunk < chunks.n(); ++i_chunk) {
    const std::vector<std::int32_t> chunk = chunks.tokens(i_chunk);
    chunks.begin(session, chunk);
    std::size_t i = chunks.n_skipped();  // the token just read: its logits predict the next
    const auto score = [&](const float* logits) {
      ++i;
      tally.add(chunks.start(i_chunk) + i, negative_log_likelihood(logits, n_vocab, chunk[i]));
    };
    feed(session, chunk.data() + i, chunks.n_read() - i, score);
    progress.update(static_cast<std::int64_t>(i_chunk + 1), running_note(tally));
  }
}

// Both sessions read a batch in turn, so that no more than a batch of logits is held.
void compare_chunks(const runnel_model* model, runnel_session* base, runnel_session* session,
                    const Chunks& chunks, Divergence& divergence) {
  const std::size_t n_vocab = vocabulary_size(model), n_batch = batch_size(session);
  std::vector<float> base_logits;
  Progress progress("divergence", static_cast<std::int64_t>(chunks.n()), "chunks");
  for (std::size_t i_chunk = 0; i_chunk < chunks.n(); ++i_chunk) {
    const std::vector<std::int32_t> chunk = chunks.tokens(i_chunk);
    chunks.begin(base, chunk);
    chunks.begin(session, chunk);
    for (std::size_t at = chunks.n_skipped(); at < chunks.n_read(); at += n_batch) {
      const std::size_t n_tokens = std::min(n_batch, chunks.n_read() - at);
      base_logits.clear();
      feed(base, chunk.data() + at, n_tokens,
           [&](const float* logits) { base_logits.insert(base_logits.end(), logits, logits + n_vocab); });
      std::size_t i = at;
      feed(session, chunk.data() + at, n_tokens, [&](const float* logits) {
        divergence.add(base_logits.data() + (i - at) * n_vocab, logits, n_vocab, chunk[i + 1]);
        ++i;
      });
    }
    progress.update(static_cast<std::int64_t>(i_chunk + 1), "KLD " + scientific(divergence.mean()));
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
  if (options.divergence != !options.base.empty())
    throw UsageError("--kl-divergence and --base MODEL go together");
  if (options.score_from >= options.n_chunk) throw UsageError("--score-from must be below the chunk (-c)");
  if (!options.stream && (options.settings.given("sinks") || options.settings.given("window"))) {
    throw UsageError("--sinks and --window go with --stream; a chunk (-c) is always seen as a whole");
  }
}

std::vector<std::int32_t> text_tokens(const PerplexityOptions& options, const std::string& text,
                                      const runnel_model* model) {
  std::vector<std::int32_t> tokens = tokenize(model, text, RUNNEL_ADD_BOS);
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
  if (vocabulary_size(base.get()) != vocabulary_size(model) ||
      text_tokens(options, text, base.get()) != tokens)
    throw Failure(options.base + " and " + options.model + " have different vocabularies");
  const Session base_session = open_session(base.get(), config_of_base.get());
  const Session session = open_session(model, config);
  const StopSession stop_on_interrupt(session.get());
  const Chunks chunks(model, tokens, static_cast<std::size_t>(options.n_chunk),
                      static_cast<std::size_t>(options.first_scored()));
  Divergence divergence;
  compare_chunks(model, base_session.get(), session.get(), chunks, divergence);
  if (!options.json) {
    write_out(divergence.text());
    return exit_ok;
  }
  Json out = {{"model", options.model}, {"base", options.base}, {"chunk", options.n_chunk}};
  out["n_tokens"] = tokens.size();
  divergence.report(out);
  write_json(out);
  return exit_ok;
}

int run_perplexity(const PerplexityOptions& options) {
  check_options(options);
  const Config config = options.settings.config();
  if (!options.stream) {
    set_setting(config.get(), "sinks", "0");
    set_setting(config.get(), "window", std::to_string(options.n_chunk));
  }
  const Model model = open_model(options.model, config.get());
  const std::string text = options.text.read();
  const std::vector<std::int32_t> tokens = text_tokens(options, text, model.get());
  if (options.divergence) return run_divergence(options, model.get(), config.get(), text, tokens);
  const Session session = open_session(model.get(), config.get());
  const StopSession stop_on_interrupt(session.get());

  Tally tally(tokens.size(), options.n_buckets > 0 ? options.n_buckets : options.stream ? 20 : 1);
  const auto start = std::chrono::steady_clock::now();
  if (options.stream) {
    score_stream(model.get(), session.get(), tokens, tally);
  } else {
    const Chunks chunks(model.get(), tokens, static_cast<std::size_t>(options.n_chunk),
                        static_cast<std::size_t>(options.first_scored()));
    score_chunks(model.get(), session.get(), chunks, tally);
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
  command
      .add_flag("--kl-divergence", options->divergence, "how far the predictions are from those of --base")
      ->excludes("--stream")
      ->excludes("--buckets");
  command.add_option("--base", options->base, "the model to compare with, with the same vocabulary")
      ->type_name("MODEL");
  command.add_flag("--json", options->json, "figures of the whole and of each part, memory held");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  command.callback([options, &run] { run = [options] { return run_perplexity(*options); }; });
}

}  // namespace cli
