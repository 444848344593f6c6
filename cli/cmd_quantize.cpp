// runnel quantize: writes a model with its weights in another type.
#include <memory>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "json.h"
#include "options.h"
#include "output_file.h"
#include "progress.h"
#include "stopwatch.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel quantize model-f16.gguf model-i8.gguf\n"
    "  runnel quantize model-f16.gguf model-i8.gguf --calibrate texts.txt\n"
    "  runnel quantize model-f32.gguf model-q8_0.gguf --type q8_0\n"
    "\n"
    "i8 is runnel's packed int8, 8.25 bits a weight or less. A text (--calibrate) of the kind the model is "
    "for,\n"
    "10,000 tokens or more, makes it more exact. q8_0, f16 and f32 are plain GGUF files for other programs "
    "too.";

struct QuantizeOptions {
  std::string in, out;
  std::string type = "i8";
  std::string calibrate;  // path
  bool json = false;
  SettingOptions settings;
};

int run_quantize(const QuantizeOptions& options) {
  const Config config = options.settings.config();
  refuse_same_file(options.out, options.in, "model");
  if (options.calibrate != "-") refuse_same_file(options.out, options.calibrate, "calibration text");
  if (!options.calibrate.empty() && options.type != "i8") throw UsageError("--calibrate goes with --type i8");
  const std::string calibration = options.calibrate.empty() ? std::string() : read_text(options.calibrate);
  if (!options.calibrate.empty() && calibration.empty())
    throw Failure("the calibration text " + options.calibrate + " is empty");
  runnel_status status = RUNNEL_OK;
  const Stopwatch watch;
  {
    CallProgress progress("quantize");
    status = runnel_quantize(options.in.c_str(), options.out.c_str(), options.type.c_str(), config.get(),
                             calibration.data(), calibration.size(), CallProgress::call, &progress);
  }
  check(status);
  const std::int64_t n_bytes = file_bytes(options.out), n_bytes_before = file_bytes(options.in);
  const double seconds = watch.seconds();
  if (options.json) {
    write_json({{"model", options.in},
                {"model_bytes", n_bytes_before},
                {"out", options.out},
                {"type", options.type},
                {"bytes", n_bytes},
                {"seconds", seconds}});
  } else {
    write_note(options.out + ": " + bytes_text(n_bytes) + " of " + options.type + ", from " +
               bytes_text(n_bytes_before) + ", in " + fixed(seconds, 1) + " s");
  }
  return exit_ok;
}

}  // namespace

void add_quantize(CLI::App& app, Run& run) {
  const auto options = std::make_shared<QuantizeOptions>();
  CLI::App& command =
      add_command(app, "quantize", "Write a model with its weights in another type", examples);
  require(add_file(command, "MODEL", options->in, "FILE", "a GGUF file in F32, F16, BF16 or Q8_0"));
  require(add_written_file(command, "OUT", options->out, "the file to write"));
  add_choice(command, "--type", options->type, "TYPE", {"i8", "q8_0", "f16", "f32"},
             "i8, q8_0, f16 or f32; default i8");
  add_file(command, "--calibrate", options->calibrate, "FILE",
           "text that shows what the model reads, for i8; \"-\" is standard input");
  add_flag(command, "--json", options->json, "one JSON object at the end: files, type, bytes, seconds");
  options->settings.add_to(command, {"threads"});
  on_command(command, run, [options] { return run_quantize(*options); });
}

}  // namespace cli
