// runnel logits: what the model computes for a list of tokens, for comparison with others.
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "commands.h"
#include "errors.h"
#include "feeding.h"
#include "interrupt.h"
#include "options.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* examples =
    "  runnel logits model.gguf --tokens 1,403,407,261,378 --out logits.f32\n"
    "  runnel logits model.gguf --tokens 1,403,407 --out logits.f32 --step --cache f32\n"
    "\n"
    "The file holds little-endian f32 [n_tokens, n_vocab]: row i predicts the token after token i. It "
    "appears under\n"
    "its name only when it is complete. A model without a tokenizer will do.";

static_assert(std::endian::native == std::endian::little, "floats are written as they lie in memory");

struct LogitsOptions {
  std::string model, tokens, out;
  bool step = false;
  SettingOptions settings;
};

// A file that takes its name when it is complete, so that no reader ever sees half of one. What exists and is
// no regular file (a pipe, /dev/null) is written to directly.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {
    std::error_code error;
    const fs::file_status status = fs::status(path_, error);
    const bool direct = fs::exists(status) && !fs::is_regular_file(status);
    written_path_ = direct ? path_ : path_ + ".part" + std::to_string(getpid());
    file_ = std::fopen(written_path_.c_str(), "wb");
    if (!file_) throw failure("cannot write");
    temporary_ = !direct;
  }
  ~OutputFile() {
    if (file_) std::fclose(file_);
    if (temporary_) std::remove(written_path_.c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const float* values, std::size_t n_values) {
    if (std::fwrite(values, sizeof(float), n_values, file_) != n_values) throw failure("cannot write");
  }

  void finish() {
    std::FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) throw failure("cannot write");
    if (temporary_ && std::rename(written_path_.c_str(), path_.c_str()) != 0)
      throw failure("cannot rename the finished file to it");
    temporary_ = false;
  }

 private:
  Failure failure(const char* what) const {
    return Failure(path_ + ": " + what + ": " + std::strerror(errno));
  }

  std::string path_, written_path_;
  std::FILE* file_ = nullptr;
  bool temporary_ = false;
};

int run_logits(const LogitsOptions& options) {
  const std::vector<std::int32_t> tokens = parse_tokens(options.tokens);
  const Config config = options.settings.config();
  // Logits are written for comparison: nothing is rounded that need not be.
  if (!options.settings.given("cache")) set_setting(config.get(), "cache", "f32");
  const Model model = open_model(options.model, config.get());
  const Session session = open_session(model.get(), config.get());
  const auto n_vocab = static_cast<std::size_t>(runnel_model_fact(model.get(), RUNNEL_N_VOCAB));

  const StopSession stop_on_interrupt(session.get());
  OutputFile out(options.out);
  const auto write_row = [&](const float* logits) { out.write(logits, n_vocab); };
  if (options.step) {
    for (const std::int32_t token : tokens) feed(session.get(), &token, 1, write_row);
  } else {
    feed_with_progress(session.get(), tokens, "logits", write_row);
  }
  out.finish();
  return exit_ok;
}

}  // namespace

void add_logits(CLI::App& app, Run& run) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App& command = add_command(app, "logits", "Write the logits of a list of tokens to a file", examples);
  add_model(command, options->model);
  command.add_option("--tokens", options->tokens, "token ids, separated by commas")
      ->type_name("IDS")
      ->required();
  command.add_option("--out", options->out, "the file to write")->type_name("FILE")->required();
  command.add_flag("--step", options->step, "read token by token instead of in batches");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  command.callback([options, &run] { run = [options] { return run_logits(*options); }; });
}

}  // namespace cli
