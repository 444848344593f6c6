// runnel generate: a prompt, and what the model makes of it.
#include <memory>
#include <optional>
#include <string_view>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "feeding.h"
#include "interrupt.h"
#include "json.h"
#include "model_path.h"
#include "options.h"
#include "progress.h"
#include "reading_bar.h"
#include "session_notes.h"
#include "settings.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel generate model.gguf -p \"Once upon a time\" -n 60 --greedy\n"
    "  runnel generate model.gguf -f prompt.txt -n -1      without end, until Ctrl-C\n"
    "  runnel generate model.gguf -p \"1, 2, 3,\" --stop \"10\" --json\n"
    "\n"
    "A newline that ends a file or standard input is no part of the prompt. Standard output gets the prompt, "
    "the\n"
    "text and a newline, and nothing else. Ctrl-C ends the text cleanly, with exit code 130.";

struct GenerateOptions {
  std::string model;
  TextOptions prompt;
  SettingOptions settings;
  std::int64_t n_tokens = 256;
  TokenOptions tokens;
  bool quiet = false;
  bool json = false;
};

std::string statistics(const runnel_session* session, runnel_finish finish) {
  const auto stat = [session](runnel_stat which) { return runnel_session_stat(session, which); };
  return "prompt " + speed_text(session, RUNNEL_STAT_FED_TOKENS, RUNNEL_STAT_FED_US) + "; text " +
         speed_text(session, RUNNEL_STAT_GENERATED_TOKENS, RUNNEL_STAT_GENERATED_US) + "; cache " +
         with_commas(stat(RUNNEL_STAT_CACHE_USED)) + "/" + with_commas(stat(RUNNEL_STAT_CACHE_SIZE)) +
         "; ended by " + finish_name(finish);
}

// Tells what the window could not hold. A prompt that is to be refused then is given as a whole.
void feed_prompt(runnel_session* session, const std::vector<std::int32_t>& tokens) {
  if (std::string_view(runnel_session_get(session, "overflow")) == "error") {
    const ReadingBar bar(session);
    feed(session, tokens.data(), tokens.size());
  } else {
    feed_with_progress(session, tokens, "prompt");
  }
  note_unseen("prompt", runnel_session_stat(session, RUNNEL_STAT_EVICTED));
}

Json report(const GenerateOptions& options, const std::string& prompt, const std::string& text,
            const runnel_session* session, runnel_finish finish) {
  const auto stat = [session](runnel_stat which) { return runnel_session_stat(session, which); };
  return {
      {"model", options.model},
      {"prompt", prompt},
      {"text", text},
      {"finish", finish_name(finish)},
      {"seed", std::stoull(runnel_session_get(session, "seed"))},
      {"prompt_tokens", stat(RUNNEL_STAT_FED_TOKENS)},
      {"prompt_us", stat(RUNNEL_STAT_FED_US)},
      {"prompt_tokens_per_s", rate(stat(RUNNEL_STAT_FED_TOKENS), stat(RUNNEL_STAT_FED_US))},
      {"generated_tokens", stat(RUNNEL_STAT_GENERATED_TOKENS)},
      {"generated_us", stat(RUNNEL_STAT_GENERATED_US)},
      {"generated_tokens_per_s", rate(stat(RUNNEL_STAT_GENERATED_TOKENS), stat(RUNNEL_STAT_GENERATED_US))},
      {"cache_used", stat(RUNNEL_STAT_CACHE_USED)},
      {"cache_size", stat(RUNNEL_STAT_CACHE_SIZE)},
      {"evicted_tokens", stat(RUNNEL_STAT_EVICTED)},
      {"reread_tokens", stat(RUNNEL_STAT_REREAD_TOKENS)},
  };
}

int run_generate(GenerateOptions options) {
  const Config config = options.settings.config();
  const bool for_ever = options.n_tokens == -1;
  if (for_ever && !options.settings.given("ignore_eos")) set_setting(config.get(), "ignore_eos", "true");

  const std::string prompt = options.prompt.read_prompt();
  options.model = model_or_bundled(options.model);
  const Model model = open_model(options.model, config.get());
  const Session session = open_session(model.get(), config.get());
  const std::vector<std::int32_t> tokens = tokenize(model.get(), prompt, options.tokens.flags());
  if (tokens.empty()) {
    throw Failure(options.tokens.no_bos
                      ? "the prompt is empty, and with --no-bos there is nothing to begin with"
                      : "the prompt is empty, and this model has no token to begin with");
  }
  note_untrained_window(model.get(), session.get());

  const StopSession stop_on_interrupt(session.get());
  feed_prompt(session.get(), tokens);
  if (!options.json) write_out(prompt);
  std::string text;
  std::optional<Progress> progress;  // of text that nobody sees grow
  if (options.json && options.n_tokens > 0) progress.emplace("generate", options.n_tokens, "tokens");
  const auto on_text = [&](std::string_view piece) {
    if (options.json) {
      text += piece;
      if (progress) progress->update(runnel_session_stat(session.get(), RUNNEL_STAT_GENERATED_TOKENS));
    } else {
      write_model_text(piece);
    }
    return !interrupted();
  };
  const runnel_finish finish = generating(on_text, [&](runnel_text_fn call, void* user, runnel_finish* how) {
    return runnel_session_generate(session.get(), options.n_tokens, call, user, how);
  });
  progress.reset();
  if (options.json) {
    write_json(report(options, prompt, text, session.get(), finish));
  } else {
    write_out("\n");
  }
  if (!options.json) note_reread(model.get(), runnel_session_stat(session.get(), RUNNEL_STAT_REREAD_TOKENS));
  if (!options.quiet && !options.json) write_note(statistics(session.get(), finish));
  return finish == RUNNEL_FINISH_STOPPED ? exit_interrupted : exit_ok;
}

}  // namespace

void add_generate(CLI::App& app, Run& run) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App& command = add_command(app, "generate", "Continue a text", examples);
  add_optional_model(command, options->model);
  options->prompt.add_to(command, "the text to continue");
  add_count(command, "-n,--n-tokens", options->n_tokens, -1, most_tokens,
            "tokens to generate; -1: without end; default 256");
  options->tokens.add_to(command);
  add_flag(command, "-q,--quiet", options->quiet, "no statistics on standard error");
  add_flag(command, "--json", options->json,
           "one JSON object at the end: prompt, text, finish, counts, rates");
  options->settings.add_to(command, SettingOptions::Which::generation);
  on_command(command, run, [options] { return run_generate(*options); });
}

}  // namespace cli
