// The commands. Each adds its subcommand to the app; when that is on the command line, parsing sets `run`,
// and what `run` returns is the exit code.
#pragma once
#include "command_line.h"

namespace cli {

void add_chat(CLI::App& app, Run& run);
void add_generate(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_perplexity(CLI::App& app, Run& run);
void add_quantize(CLI::App& app, Run& run);
void add_inspect(CLI::App& app, Run& run);
void add_logits(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_synth(CLI::App& app, Run& run);

}  // namespace cli
