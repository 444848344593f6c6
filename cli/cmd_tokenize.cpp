// runnel tokenize: the token ids of a text.
#include <memory>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "json.h"
#include "model_path.h"
#include "options.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel tokenize model.gguf -p \"Hello, world\"\n"
    "  runnel tokenize vocabulary.gguf -f text.txt --no-bos\n"
    "  echo -n Hello | runnel tokenize model.gguf --json\n"
    "\n"
    "Standard output gets the ids on one line, separated by spaces. A file without weights will do, or\n"
    "with weights of any type.";

struct TokenizeOptions {
  std::string model;
  TextOptions text;
  TokenOptions tokens;
  bool json = false;
};

int run_tokenize(const TokenizeOptions& options) {
  const std::string text = options.text.read();
  const Model model = open_vocabulary(model_or_bundled(options.model));
  const std::vector<std::int32_t> tokens = tokenize(model.get(), text, options.tokens.flags());

  if (options.json) {
    Json pieces = Json::array();
    for (const std::int32_t token : tokens) {
      pieces.push_back({{"id", token}, {"text", token_text(model.get(), token)}});
    }
    write_json({{"n_tokens", tokens.size()}, {"tokens", std::move(pieces)}});
    return exit_ok;
  }
  std::string line;
  for (const std::int32_t token : tokens) line += (line.empty() ? "" : " ") + std::to_string(token);
  write_out(line + "\n");
  return exit_ok;
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App& command = add_command(app, "tokenize", "Show the tokens of a text", examples);
  add_optional_model(command, options->model);
  options->text.add_to(command, "the text");
  options->tokens.add_to(command);
  add_flag(command, "--json", options->json, "ids with their texts");
  on_command(command, run, [options] { return run_tokenize(*options); });
}

}  // namespace cli
