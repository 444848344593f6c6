// runnel bench: how fast a model runs here, and how fast it could at best.
#include <algorithm>
#include <memory>

#include "bench_run.h"
#include "commands.h"
#include "console.h"
#include "errors.h"
#include "memory.h"
#include "model_path.h"
#include "session_notes.h"
#include "settings.h"
#include "stopwatch.h"
#include "synthetic.h"

namespace cli {
namespace {

constexpr const char* examples =
    R"(  runnel bench model.gguf                            a prompt of 512 tokens, then 64 one by one
  runnel bench --shape llama-3.2-1b --int8           what this machine does with a model of that shape
  runnel bench model.gguf --depth 4096 -t 1,2,4      decoding with a full window too
  runnel bench model.gguf --json

Rates are medians. The limits beside them are measured in the same run: decoding cannot be faster than the
weights and the cache can be read, a prompt not faster than the processor multiplies. Tokens are fed, not sampled.)";

struct BenchOptions {
  std::string model;
  SyntheticOptions synthetic;
  BenchPlan plan;
  CLI::Option* prompt_option = nullptr;
  bool json = false;
  SettingOptions settings;
};

struct Opened {
  Model model;
  std::string name;
  double load_s;
  double first_token_s;  // from when loading began; of a synthetic model, from when it was made
};

Opened open_and_time(const BenchOptions& options, const runnel_config* config) {
  const bool synthetic = was_given(options.synthetic.shape_option);
  const std::string path = synthetic ? "" : model_or_bundled(options.model);
  const Stopwatch watch;
  Model model = synthetic ? make_model(options.synthetic, config) : open_model(path, config);
  const double load_s = watch.seconds();
  const double first_token_s = time_first_token(model.get(), config) + (synthetic ? 0.0 : load_s);
  return {std::move(model), synthetic ? options.synthetic.shape : path, load_s, first_token_s};
}

void check_depth(const BenchPlan& plan, const runnel_config* config) {
  if (plan.depth == 0) return;
  if (plan.n_decode == 0) throw UsageError("--depth is a window to decode with, and -n 0 decodes nothing");
  const std::int64_t n_sinks = n_sinks_of(config);
  if (plan.depth > n_sinks) return;
  throw UsageError("--depth: expected more than the " + counted(n_sinks, "sink") + ", got " +
                   std::to_string(plan.depth));
}

// What a model with learned positions can see at once.
void fit_to_positions(const BenchOptions& options, const runnel_model* model, BenchPlan& plan) {
  const std::int64_t most = most_seen(model);
  const std::int64_t most_behind_sinks = most - n_sinks_of(options.settings.config().get());
  if (!was_given(options.prompt_option)) plan.n_prompt = std::min(plan.n_prompt, most_behind_sinks);
  expect_seen("-p", plan.n_prompt, most_behind_sinks, model);
  expect_seen("-n", plan.n_decode, most_behind_sinks - 1, model);
  expect_seen("--depth", plan.depth, most, model);
}

Json bench_report(const BenchOptions& options) {
  const Config config = options.settings.config();
  set_setting(config.get(), "threads", std::to_string(options.plan.threads.back()));
  check_depth(options.plan, config.get());
  note_threads(*std::max_element(options.plan.threads.begin(), options.plan.threads.end()));
  const Opened opened = open_and_time(options, config.get());
  const runnel_model* model = opened.model.get();
  BenchPlan plan = options.plan;
  fit_to_positions(options, model, plan);
  Json report = {{"version", runnel_version()},
                 {"isa", isa_name(runnel_config_get(config.get(), "isa"))},
                 {"blas_core", runnel_blas_core()},
                 {"model", opened.name},
                 {"synthetic", was_given(options.synthetic.shape_option)},
                 {"architecture", runnel_model_architecture(model)},
                 {"type", weight_type(model)},
                 {"n_parameters", runnel_model_fact(model, RUNNEL_N_PARAMETERS)},
                 {"weight_bytes", runnel_model_fact(model, RUNNEL_WEIGHT_BYTES)},
                 {"cache", runnel_config_get(config.get(), "cache")},
                 {"depth", options.plan.depth},
                 {"repeat", options.plan.n_repeat},
                 {"load_s", opened.load_s},
                 {"first_token_s", opened.first_token_s}};
  report["runs"] = measure(model, options.settings, plan);
  report["peak_memory_bytes"] = peak_resident_bytes();
  return report;
}

// ---- the same for people ----

std::string speed_row(const Json& run, const char* part, const std::string& name) {
  if (!run.contains(part)) return "";
  const Json& speed = run[part];
  const bool reads = speed["limited_by"] == "read bandwidth";
  return right_aligned(std::to_string(run["threads"].get<int>()), 7) + "  " + left_aligned(name, 18) +
         right_aligned(rate_text(speed["tokens_per_s"]), 9) +
         right_aligned(rate_text(speed["limit_tokens_per_s"]), 10) +
         right_aligned(fixed(100.0 * speed["share_of_limit"].get<double>(), 0), 7) + " %  " +
         speed["limited_by"].get<std::string>() + ", " + rate_text(speed["limit_per_s"].get<double>() / 1e9) +
         (reads ? " GB/s\n" : " G/s\n");
}

std::string bench_text(const Json& report) {
  const bool synthetic = report["synthetic"];
  const auto seconds = [](const Json& value) { return fixed(value.get<double>(), 3) + " s"; };
  const std::string core = report["blas_core"];
  std::string text = report["model"].get<std::string>() + ": " + with_commas(report["n_parameters"]) +
                     " parameters, " + report["type"].get<std::string>() + ", " +
                     bytes_text(report["weight_bytes"]) + (synthetic ? " of random weights\n" : "\n");
  text += report["isa"].get<std::string>() + " kernels, " +
          (core.empty() ? "" : "OpenBLAS for " + core + ", ") + report["cache"].get<std::string>() +
          " cache\n";
  text += (synthetic ? "made in " : "opened in ") + seconds(report["load_s"]) + ", first token after " +
          seconds(report["first_token_s"]) + (synthetic ? " more" : "") + ", at most " +
          bytes_text(report["peak_memory_bytes"]) + " of memory\n";
  std::string rows;
  for (const Json& run : report["runs"]) {
    const auto n_prompt = run.contains("prefill") ? run["prefill"]["tokens"].get<std::int64_t>() : 0;
    rows += speed_row(run, "prefill", "prompt of " + with_commas(n_prompt));
    rows += speed_row(run, "decode", "decode");
    rows += speed_row(run, "decode_at_depth", "decode at " + with_commas(report["depth"]));
  }
  if (rows.empty()) return text;
  return text + "\nthreads  what               tokens/s     limit    share  limit is\n" + rows;
}

int run_bench(const BenchOptions& options) {
  const Json report = bench_report(options);
  if (options.json)
    write_json(report);
  else
    write_out(bench_text(report));
  return exit_ok;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  const auto options = std::make_shared<BenchOptions>();
  BenchPlan& plan = options->plan;
  CLI::App& command =
      add_command(app, "bench", "Measure speed, beside what the machine can do at best", examples);
  add_optional_model(command, options->model);
  options->synthetic.add_to(command);
  exclude(options->synthetic.shape_option, {"MODEL"});
  need(options->synthetic.type_option, "--shape");
  need(options->synthetic.seed_option, "--shape");
  const auto add = [&](const char* names, std::int64_t& value, std::int64_t least, const std::string& help) {
    return add_count(command, names, value, least, 1 << 24, help + "; default " + std::to_string(value));
  };
  options->prompt_option = add("-p,--n-prompt", plan.n_prompt, 0, "tokens of the prompt; 0: no such part");
  add("-n,--n-decode", plan.n_decode, 0, "tokens decoded one by one; 0: no such part");
  add("--depth", plan.depth, 0, "decode with a full window of so many tokens too");
  add("--repeat", plan.n_repeat, 1, "passes that count, of each part");
  plan.threads = {runnel_default_threads()};
  add_counts(command, "-t,--threads", plan.threads, 1, 1024,
             "numbers of threads, as in 1,2; default " + std::to_string(plan.threads[0]));
  add_flag(command, "--json", options->json, "one JSON object");
  options->settings.add_to(command, {"int8", "isa", "sinks", "batch", "cache"});
  on_command(command, run, [options] { return run_bench(*options); });
}

}  // namespace cli
