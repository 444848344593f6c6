// runnel synth: a model file with random weights.
#include <memory>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "json.h"
#include "options.h"
#include "output_file.h"
#include "progress.h"
#include "synthetic.h"

namespace cli {
namespace {

constexpr const char* examples =
    R"(  runnel synth --shape tinyllama-1.1b --type q8_0 tiny.gguf
  runnel synth --shape qwen3-0.6b --type f16 --seed 7 random.gguf

A plain GGUF file, as large and as fast as the model it is named after. It knows no language: its weights are
random, its tokenizer has bytes only. Other programs for GGUF files load it too.)";

struct SynthOptions {
  SyntheticOptions synthetic;
  std::string out;
  bool json = false;
  SettingOptions settings;
};

int run_synth(const SynthOptions& options) {
  const Config config = options.settings.config();
  const SyntheticOptions& s = options.synthetic;
  runnel_status status = RUNNEL_OK;
  {
    CallProgress progress("synth " + s.shape);
    status = runnel_synthesize(s.shape.c_str(), s.type.c_str(), s.seed, options.out.c_str(), config.get(),
                               CallProgress::call, &progress);
  }
  check(status);
  if (options.json)
    write_json({{"out", options.out},
                {"shape", s.shape},
                {"type", s.type},
                {"seed", s.seed},
                {"bytes", file_bytes(options.out)}});
  return exit_ok;
}

}  // namespace

void add_synth(CLI::App& app, Run& run) {
  const auto options = std::make_shared<SynthOptions>();
  CLI::App& command =
      add_command(app, "synth", "Write a model with random weights, to try and to measure", examples);
  options->synthetic.add_to(command);
  require(options->synthetic.shape_option);
  require(add_written_file(command, "OUT", options->out, "the GGUF file to write"));
  add_flag(command, "--json", options->json, "one JSON object at the end: file, shape, type, seed, bytes");
  options->settings.add_to(command, {"threads"});
  on_command(command, run, [options] { return run_synth(*options); });
}

}  // namespace cli
