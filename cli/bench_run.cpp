#include "bench_run.h"

#include <algorithm>
#include <map>

#include "errors.h"
#include "feeding.h"
#include "progress.h"
#include "settings.h"
#include "stopwatch.h"

namespace cli {
namespace {

// Tokens without meaning, the same in every run.
std::vector<std::int32_t> made_up_tokens(std::int64_t n, std::int64_t n_vocab) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % n_vocab));
  return tokens;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

std::string arithmetic_name(runnel_arithmetic arithmetic) {
  return arithmetic == RUNNEL_F32 ? "f32" : arithmetic == RUNNEL_INT8 ? "int8" : "int16";
}
std::string peak_key(const std::string& arithmetic) { return arithmetic + "_multiply_adds_per_s"; }

class Benchmark {
 public:
  Benchmark(const runnel_model* model, const SettingOptions& settings, const BenchPlan& plan)
      : model_(model),
        settings_(settings),
        plan_(plan),
        tokens_(made_up_tokens(std::max({plan.n_prompt, plan.n_decode, plan.depth, std::int64_t{1}}),
                               runnel_model_fact(model, RUNNEL_N_VOCAB))) {}

  Json run() {
    Json runs = limits();
    if (plan_.n_prompt > 0 || plan_.n_decode > 0) measure_short(runs);
    if (plan_.n_decode > 0 && plan_.depth > 0) measure_full(runs);
    return runs;
  }

 private:
  // Of so many parts.
  Progress passes(std::int64_t n_parts) const {
    return Progress("bench", n_threads() * n_parts * (plan_.n_repeat + 1), "passes");
  }

  std::int64_t n_threads() const { return static_cast<std::int64_t>(plan_.threads.size()); }

  Config config(std::int32_t threads) const {
    Config config = settings_.config();
    set_setting(config.get(), "threads", std::to_string(threads));
    return config;
  }

  Json limits() const {
    constexpr runnel_arithmetic arithmetics[] = {RUNNEL_F32, RUNNEL_INT8, RUNNEL_INT16};
    Progress progress("limits", n_threads() * (1 + std::ssize(arithmetics)), "measured");
    Json runs = Json::array();
    for (const std::int32_t threads : plan_.threads) {
      const Config on_threads = config(threads);
      double read = 0.0;
      check(runnel_measure_read(model_, on_threads.get(), &read));
      progress.advance();
      Json run = {{"threads", threads}, {"read_bytes_per_s", read}};
      for (const runnel_arithmetic arithmetic : arithmetics) {
        double peak = 0.0;
        check(runnel_measure_peak(arithmetic, on_threads.get(), &peak));
        progress.advance();
        run[peak_key(arithmetic_name(arithmetic))] = peak;
      }
      runs.push_back(run);
    }
    return runs;
  }

  // A prompt, and decoding from an empty cache.
  void measure_short(Json& runs) {
    const Session session = open(std::max(plan_.n_prompt, plan_.n_decode + 1));
    Progress progress = passes((plan_.n_prompt > 0) + (plan_.n_decode > 0));
    for (Json& run : runs) {
      set_threads(session.get(), run);
      if (plan_.n_prompt > 0) {
        const auto prefill = [&] {
          feed(session.get(), tokens_.data(), static_cast<std::size_t>(plan_.n_prompt));
        };
        const auto reset = [&] { check(runnel_session_reset(session.get())); };
        run["prefill"] = speed(progress, plan_.n_prompt, reset, prefill);
        add_prompt_limit(run);
      }
      if (plan_.n_decode > 0) {
        const auto restart = [&] {
          check(runnel_session_reset(session.get()));
          feed(session.get(), tokens_.data(), 1);
        };
        run["decode"] = speed(progress, plan_.n_decode, restart, [&] { decode(session.get()); });
        add_read_limit(run, "decode", plan_.n_decode / 2 + 2);
      }
    }
  }

  // Decoding with a full window, the steady state of a stream: each token sees `depth` others, and one
  // leaves.
  void measure_full(Json& runs) {
    const Session session = open(plan_.depth - n_sinks());
    const auto most = std::max_element(runs.begin(), runs.end(), [](const Json& a, const Json& b) {
      return a["threads"].get<int>() < b["threads"].get<int>();
    });
    set_threads(session.get(), *most);
    const std::vector<std::int32_t> window(tokens_.begin(), tokens_.begin() + plan_.depth);
    feed_with_progress(session.get(), window, "filling the window");
    Progress progress = passes(1);
    for (Json& run : runs) {
      set_threads(session.get(), run);
      run["decode_at_depth"] = speed(
          progress, plan_.n_decode, [] {}, [&] { decode(session.get()); });
      add_read_limit(run, "decode_at_depth", plan_.depth);
    }
  }

  Session open(std::int64_t window) const {
    const Config with_window = settings_.config();
    set_setting(with_window.get(), "window", std::to_string(window));
    return open_session(model_, with_window.get());
  }

  std::int64_t n_sinks() const { return n_sinks_of(settings_.config().get()); }

  // That a token reads which sees so many.
  std::int64_t cache_bytes(std::int64_t n_seen) const {
    const Config config = settings_.config();
    set_setting(config.get(), "window", std::to_string(std::max<std::int64_t>(1, n_seen - n_sinks())));
    set_setting(config.get(), "batch", "1");
    std::int64_t cache_bytes = 0, scratch_bytes = 0;
    check(runnel_model_session_bytes(model_, config.get(), &cache_bytes, &scratch_bytes));
    return cache_bytes;
  }

  static void set_threads(runnel_session* session, const Json& run) {
    check(runnel_session_set(session, "threads", std::to_string(run["threads"].get<int>()).c_str()));
  }

  void decode(runnel_session* session) const {
    for (std::int64_t i = 0; i < plan_.n_decode; ++i) feed(session, tokens_.data() + i, 1);
  }

  // Tokens a second of work(), which handles n of them, after prepare(): the median, and the extremes.
  template <class Prepare, class Work>
  Json speed(Progress& progress, std::int64_t n, const Prepare& prepare, const Work& work) {
    std::vector<double> rates;
    for (std::int64_t pass = 0; pass <= plan_.n_repeat; ++pass) {
      prepare();
      const Stopwatch watch;
      work();
      const double seconds = watch.seconds();
      if (pass > 0) rates.push_back(static_cast<double>(n) / seconds);
      progress.advance();
    }
    const auto [slowest, fastest] = std::minmax_element(rates.begin(), rates.end());
    return {{"tokens", n}, {"tokens_per_s", median(rates)}, {"slowest", *slowest}, {"fastest", *fastest}};
  }

  void add_prompt_limit(Json& run) const {
    runnel_arithmetic arithmetic = RUNNEL_F32;
    check(runnel_model_prompt_arithmetic(model_, settings_.config().get(), &arithmetic));
    const std::string name = arithmetic_name(arithmetic);
    const auto n = static_cast<double>(runnel_model_fact(model_, RUNNEL_PROMPT_MULTIPLY_ADDS));
    add_limit(run, "prefill", peak_key(name), n, name + " multiply-adds");
  }

  void add_read_limit(Json& run, const char* part, std::int64_t n_seen) const {
    const std::int64_t n_bytes = runnel_model_fact(model_, RUNNEL_DECODE_BYTES) + cache_bytes(n_seen);
    run[part]["bytes_per_token"] = n_bytes;
    add_limit(run, part, "read_bytes_per_s", static_cast<double>(n_bytes), "read bandwidth");
  }

  // Of the run's figure `key` a token takes so much.
  static void add_limit(Json& run, const char* part, const std::string& key, double a_token,
                        const std::string& what) {
    const double per_s = run[key].get<double>();
    run[part]["limit_tokens_per_s"] = per_s / a_token;
    run[part]["share_of_limit"] = run[part]["tokens_per_s"].get<double>() * a_token / per_s;
    run[part]["limited_by"] = what;
    run[part]["limit_per_s"] = per_s;
  }

  const runnel_model* model_;
  const SettingOptions& settings_;
  const BenchPlan& plan_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

double time_first_token(const runnel_model* model, const runnel_config* config) {
  const Stopwatch watch;
  const Session session = open_session(model, config);
  const std::int64_t bos = runnel_model_fact(model, RUNNEL_TOKEN_BOS);
  std::int32_t token = bos >= 0 ? static_cast<std::int32_t>(bos) : 0;
  feed(session.get(), &token, 1);
  check(runnel_session_sample(session.get(), &token));
  return watch.seconds();
}

Json measure(const runnel_model* model, const SettingOptions& settings, const BenchPlan& plan) {
  return Benchmark(model, settings, plan).run();
}

std::string weight_type(const runnel_model* model) {
  std::map<std::string, std::int64_t> bytes;
  for (std::size_t i = 0; const char* type = runnel_model_tensor_type(model, i); ++i)
    bytes[type] += runnel_model_tensor_bytes(model, i);
  const auto most = std::max_element(bytes.begin(), bytes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : most->first;
}

}  // namespace cli
