// runnel inspect: what is inside a model while it reads. Massive activations, attention sinks, the cost of
// int8.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "feeding.h"
#include "inspection.h"
#include "interrupt.h"
#include "json.h"
#include "model_path.h"
#include "options.h"
#include "output_file.h"
#include "settings.h"
#include "svg.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel inspect                              the bundled model, on a text of its own kind\n"
    "  runnel inspect model.gguf -f text.txt --svg pictures\n"
    "  runnel inspect model.gguf -p \"The capital of France is\" --json\n"
    "\n"
    "Massive activations (Sun et al. 2024) are entries of the residual stream that are hundreds of times "
    "the\n"
    "median, in one or two dimensions of the first token or of delimiters. Attention uses them to find its\n"
    "sinks (Xiao et al. 2023), where heads look that have nothing to look for.";

constexpr const char* own_text =
    "<|user|>I want to book a table for two in San Jose.<|end|>"
    "<|assistant|>What time would you like to eat?<|end|>"
    "<|user|>At 7 in the evening, please. Is it expensive there?<|end|>"
    "<|assistant|>It has a moderate price range.<|end|>"
    "<|user|>Good. Please also find me a cheap hotel nearby for one night.<|end|><|assistant|>";

constexpr const char* massive_picture = "massive-activations.svg";
constexpr std::size_t shown_outliers = 8;

struct InspectOptions {
  std::string model;
  TextOptions text;
  std::string svg_folder;
  std::int64_t max_tokens = 512;
  double ratio = 30;
  bool json = false;
  SettingOptions settings;
};

struct Result {
  Model model;
  std::vector<std::int32_t> tokens;
  std::unique_ptr<Inspection> inspection;
  std::size_t n_layer, n_head;
  std::vector<Outlier> massive, ffn;
};

// Pictures are drawn when all is read: what keeps them from being written is told before.
void make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Failure(folder + ": cannot make the folder: " + failed.message());
  expect_writable(folder + "/" + massive_picture);
}

Result inspect(const InspectOptions& options) {
  const Config config = options.settings.config();
  const bool has_text = options.text.given();
  const std::string text = has_text || !options.model.empty() ? options.text.read() : own_text;
  const std::string path = model_or_bundled(options.model);
  Result result{open_model(path, config.get()), {}, nullptr, 0, 0, {}, {}};
  const runnel_model* model = result.model.get();
  result.tokens = tokenize(model, text, RUNNEL_ADD_BOS | RUNNEL_PARSE_SPECIAL);
  const std::size_t n_text = result.tokens.size();
  result.tokens.resize(std::min(n_text, static_cast<std::size_t>(options.max_tokens)));
  const std::int64_t n_sinks = n_sinks_of(config.get());
  if (!options.settings.given("window")) {  // nothing leaves it, but where there are fewer learned positions
    const auto n_tokens = static_cast<std::int64_t>(result.tokens.size());
    const std::int64_t window = std::min(n_tokens, most_seen(model) - n_sinks);
    set_setting(config.get(), "window", std::to_string(std::max<std::int64_t>(1, window)));
  }
  if (n_sinks < 1) throw UsageError("--sinks: expected 1 or more, whose attention is to be shown, got 0");
  if (result.tokens.size() <= static_cast<std::size_t>(n_sinks)) {
    throw Failure(length_text(result.tokens.size(), result.tokens.size() < n_text) +
                  "; expected more than the sinks (" + std::to_string(n_sinks) + ")");
  }
  if (!options.svg_folder.empty()) make_folder(options.svg_folder);
  result.n_layer = static_cast<std::size_t>(runnel_model_fact(model, RUNNEL_N_LAYER));
  result.n_head = static_cast<std::size_t>(runnel_model_fact(model, RUNNEL_N_HEAD));
  result.inspection = std::make_unique<Inspection>(result.n_layer, result.n_head);
  const Session session = open_session(model, config.get());
  if (runnel_model_fact(model, RUNNEL_CAN_STREAM) == 0) {
    // Positions are those in the cache: behind a full one they would no longer be those in the text.
    const auto n_seen = static_cast<std::size_t>(runnel_session_stat(session.get(), RUNNEL_STAT_CACHE_SIZE));
    result.tokens.resize(std::min(result.tokens.size(), n_seen));
  }
  const StopSession stop_on_interrupt(session.get());
  result.inspection->watch(session.get());
  feed_with_progress(session.get(), result.tokens, "inspect");
  result.inspection->expect_numbers(path);
  result.massive = find_outliers(result.inspection->stream(), options.ratio);
  result.ffn = find_outliers(result.inspection->ffn_hidden(), options.ratio);
  return result;
}

// ---- text

std::string layers_text(const std::vector<std::size_t>& layers) {
  if (layers.size() == 1) return "layer " + std::to_string(layers.front());
  const bool is_run = layers.back() - layers.front() + 1 == layers.size();
  return (is_run ? "layers " : std::to_string(layers.size()) + " of layers ") +
         std::to_string(layers.front()) + " to " + std::to_string(layers.back());
}

std::string outlier_text(const Result& r, const Outlier& o) {
  std::string text = one_line(token_text(r.model.get(), r.tokens[o.position]));
  text = "token " + std::to_string(o.position) + " \"" + text + "\", dimension " +
         std::to_string(o.dimension) + ": ";
  text += fixed(static_cast<double>(o.least), 1);
  if (o.least != o.most) text += " to " + fixed(static_cast<double>(o.most), 1);
  text += ", " + fixed(o.least_ratio, 0);
  if (o.least_ratio != o.most_ratio) text += " to " + fixed(o.most_ratio, 0);
  return text + " times the median, " + layers_text(o.layers);
}

std::vector<std::string> outlier_lines(const Result& r, const std::vector<Outlier>& outliers) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(shown_outliers, outliers.size()); ++i)
    lines.push_back(outlier_text(r, outliers[i]));
  if (outliers.size() > shown_outliers)
    lines.push_back("and " + std::to_string(outliers.size() - shown_outliers) + " more");
  if (lines.empty()) lines.emplace_back("none");
  return lines;
}

std::string sink_line(const Result& r) {
  std::vector<double> masses;
  for (std::size_t l = 0; l < r.n_layer; ++l)
    for (std::size_t h = 0; h < r.n_head; ++h) masses.push_back(r.inspection->sink_mass(l, h));
  std::sort(masses.begin(), masses.end());
  const auto at = [&](double share) {
    return fixed(100 * masses[static_cast<std::size_t>(share * static_cast<double>(masses.size() - 1))], 0);
  };
  return "half of the " + std::to_string(masses.size()) + " heads give " +
         (r.inspection->n_sinks() > 1 ? "them " : "it ") + at(0.25) + " to " + at(0.75) +
         " % of their attention (least " + at(0) + ", middle " + at(0.5) + ", most " + at(1) + ")";
}

std::string sinks_text(const Result& r) {
  const std::size_t n_sinks = r.inspection->n_sinks();
  if (n_sinks > 1) return "sinks, tokens 0 to " + std::to_string(n_sinks - 1);
  return "sink, token 0 \"" + one_line(token_text(r.model.get(), r.tokens[0])) + "\"";
}

void write_text(const Result& r) {
  std::string out = counted(static_cast<std::int64_t>(r.tokens.size()), "token") +
                    " read\nmassive activations of the residual stream\n";
  for (const std::string& line : outlier_lines(r, r.massive)) out += "  " + line + "\n";
  out += "outliers inside the feed-forward networks\n";
  for (const std::string& line : outlier_lines(r, r.ffn)) out += "  " + line + "\n";
  out += "attention on the " + sinks_text(r) + "\n  " + sink_line(r) +
         "\nerror of the activations in int8, per cent: with outliers carried in float / without\n";
  for (std::size_t l = 0; l < r.n_layer; ++l)
    out += "  layer " + std::to_string(l) + "  " + fixed(100 * r.inspection->int8_error(l, true), 3) + " / " +
           fixed(100 * r.inspection->int8_error(l, false), 3) + "\n";
  write_out(out);
}

// ---- JSON

Json outliers_json(const Result& r, const std::vector<Outlier>& outliers) {
  Json all = Json::array();
  for (const Outlier& o : outliers)
    all.push_back({{"token", token_text(r.model.get(), r.tokens[o.position])},
                   {"position", o.position},
                   {"dimension", o.dimension},
                   {"layers", o.layers},
                   {"value_least", o.least},
                   {"value_most", o.most},
                   {"ratio_least", o.least_ratio},
                   {"ratio_most", o.most_ratio}});
  return all;
}

Json to_json(const Result& r) {
  Json masses = Json::array(), with = Json::array(), without = Json::array();
  for (std::size_t l = 0; l < r.n_layer; ++l) {
    Json heads = Json::array();
    for (std::size_t h = 0; h < r.n_head; ++h) heads.push_back(r.inspection->sink_mass(l, h));
    masses.push_back(std::move(heads));
    with.push_back(r.inspection->int8_error(l, true));
    without.push_back(r.inspection->int8_error(l, false));
  }
  return {{"n_tokens", r.tokens.size()},
          {"massive_activations", outliers_json(r, r.massive)},
          {"ffn_outliers", outliers_json(r, r.ffn)},
          {"sink_mass", std::move(masses)},
          {"int8_error_with_outliers_carried", std::move(with)},
          {"int8_error_without", std::move(without)}};
}

// ---- pictures

HeatMap peaks_picture(const Result& r, const PeakMap& map, const std::string& title,
                      const std::vector<Outlier>& outliers) {
  HeatMap picture{title,
                  "largest magnitude of each token's row, in multiples of the layer's median",
                  "layer",
                  "token",
                  map.n_layers(),
                  map.n_positions(),
                  {},
                  1,
                  1,
                  true,
                  "times the median",
                  outlier_lines(r, outliers)};
  for (std::size_t l = 0; l < map.n_layers(); ++l) {
    const double median = map.median(l);  // of 0 there are no multiples: see find_outliers
    for (std::size_t p = 0; p < map.n_positions(); ++p) {
      const double magnitude = std::fabs(static_cast<double>(map.at(l, p).value));
      picture.values.push_back(median > 0 ? magnitude / median : 0);
      picture.high = std::max(picture.high, picture.values.back());
    }
  }
  return picture;
}

HeatMap sink_picture(const Result& r) {
  HeatMap picture{"Attention on the sink",
                  "share of each head's attention on the " + sinks_text(r) + ", mean over the other tokens",
                  "layer",
                  "head",
                  r.n_layer,
                  r.n_head,
                  {},
                  0,
                  1,
                  false,
                  "of the attention",
                  {sink_line(r)}};
  for (std::size_t l = 0; l < r.n_layer; ++l)
    for (std::size_t h = 0; h < r.n_head; ++h) picture.values.push_back(r.inspection->sink_mass(l, h));
  return picture;
}

BarChart error_picture(const Result& r) {
  BarChart picture{"Activations in int8",
                   "relative error of what a layer's products read, one scale for every 32 numbers",
                   "layer",
                   {"all in int8", "outliers carried in float"},
                   {{}, {}},
                   "per cent"};
  for (std::size_t l = 0; l < r.n_layer; ++l)
    for (const bool carry : {false, true})
      picture.values[carry].push_back(100 * r.inspection->int8_error(l, carry));
  return picture;
}

void write_pictures(const Result& r, const std::string& folder) {
  const std::string at = folder + "/";
  write_file(at + massive_picture,
             to_svg(peaks_picture(r, r.inspection->stream(), "Massive activations of the residual stream",
                                  r.massive)));
  write_file(at + "feed-forward-outliers.svg",
             to_svg(peaks_picture(r, r.inspection->ffn_hidden(), "Outliers inside the feed-forward networks",
                                  r.ffn)));
  write_file(at + "attention-sinks.svg", to_svg(sink_picture(r)));
  write_file(at + "int8-error.svg", to_svg(error_picture(r)));
}

int run_inspect(const InspectOptions& options) {
  const Result result = inspect(options);
  const auto figures = [&] { options.json ? write_json(to_json(result)) : write_text(result); };
  const auto pictures = [&] {
    if (!options.svg_folder.empty()) write_pictures(result, options.svg_folder);
  };
  write_figures_and_pictures(figures, pictures);
  return exit_ok;
}

}  // namespace

void add_inspect(CLI::App& app, Run& run) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App& command = add_command(
      app, "inspect", "Show a model's massive activations, attention sinks and int8 errors", examples);
  add_optional_model(command, options->model);
  options->text.add_to(command, "the text to read");
  add_folder(command, "--svg", options->svg_folder, "draw pictures into this folder");
  add_count(command, "--max-tokens", options->max_tokens, 2, 1 << 20,
            "read only so many tokens of the text (and no more than a model with learned positions sees at "
            "once); default 512");
  add_number(command, "--ratio", options->ratio, 2, 1e9,
             "how many times the median stands out, 2 or more; default 30");
  add_flag(command, "--json", options->json, "all figures, for a script");
  // One token is the sink and nothing is rounded, unless that is asked for.
  options->settings.set_default("sinks", "1");
  options->settings.set_default("cache", "f32");
  options->settings.tell_default("window", "all of the text");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  on_command(command, run, [options] { return run_inspect(*options); });
}

}  // namespace cli
