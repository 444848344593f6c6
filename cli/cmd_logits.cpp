// runnel logits: what the model computes for a list of tokens, for comparison with others.
#include <bit>
#include <memory>

#include "commands.h"
#include "errors.h"
#include "feeding.h"
#include "interrupt.h"
#include "json.h"
#include "model_path.h"
#include "options.h"
#include "output_file.h"
#include "progress.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel logits model.gguf --tokens 1,403,407,261,378 --out logits.f32\n"
    "  runnel logits model.gguf --tokens 1,403,407 --out logits.f32 --step --cache f16\n"
    "\n"
    "The file holds little-endian f32 [n_tokens, n_vocab]: row i predicts the token after token i. It "
    "appears under\n"
    "its name only when it is complete. A model without a tokenizer will do.";

static_assert(std::endian::native == std::endian::little, "floats are written as they lie in memory");

struct LogitsOptions {
  std::string model, tokens, out;
  bool step = false;
  bool json = false;
  SettingOptions settings;
};

void check_ids(const std::vector<std::int32_t>& tokens, std::size_t n_vocab) {
  for (const std::int32_t token : tokens) {
    if (token >= 0 && static_cast<std::size_t>(token) < n_vocab) continue;
    throw UsageError("--tokens: expected ids from 0 to " + std::to_string(n_vocab - 1) + ", got " +
                     std::to_string(token));
  }
}

int run_logits(LogitsOptions options) {
  const std::vector<std::int32_t> tokens = parse_tokens(options.tokens);
  options.model = model_or_bundled(options.model);
  refuse_same_file(options.out, options.model, "model");
  const Config config = options.settings.config();
  const Model model = open_model(options.model, config.get());
  const Session session = open_session(model.get(), config.get());
  const std::size_t n_vocab = vocabulary_size(model.get());
  check_ids(tokens, n_vocab);

  const StopSession stop_on_interrupt(session.get());
  const FinishFirst finish_first;  // no part of a file stays behind
  OutputFile out(options.out);
  const auto write_row = [&](const float* logits) { out.write(logits, n_vocab * sizeof *logits); };
  if (options.step) {
    Progress progress("logits", static_cast<std::int64_t>(tokens.size()), "tokens");
    for (const std::int32_t token : tokens) {
      feed(session.get(), &token, 1, write_row);
      progress.advance();
    }
  } else {
    feed_with_progress(session.get(), tokens, "logits", write_row);
  }
  out.finish();
  if (options.json)
    write_json({{"model", options.model},
                {"out", options.out},
                {"type", "f32"},
                {"n_tokens", tokens.size()},
                {"n_vocab", n_vocab}});
  return exit_ok;
}

}  // namespace

void add_logits(CLI::App& app, Run& run) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App& command = add_command(app, "logits", "Write the logits of a list of tokens to a file", examples);
  add_optional_model(command, options->model);
  require(add_text(command, "--tokens", options->tokens, "IDS", "token ids, separated by commas"));
  require(add_output(command, "--out", options->out, "the file to write"));
  add_flag(command, "--step", options->step, "read token by token instead of in batches");
  add_flag(command, "--json", options->json, "one JSON object at the end: what the file holds");
  options->settings.set_default("cache", "f32");  // for comparison nothing is rounded that need not be
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  on_command(command, run, [options] { return run_logits(*options); });
}

}  // namespace cli
