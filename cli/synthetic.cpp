#include "synthetic.h"

#include "errors.h"
#include "progress.h"

namespace cli {

void SyntheticOptions::add_to(CLI::App& command) {
  std::string names;
  for (std::size_t i = 0; const char* name = runnel_shape_name(i); ++i)
    names += (i > 0 ? ", " : "") + std::string(name);
  shape_option =
      command.add_option("--shape", shape, "random weights in the shape of " + names)->type_name("NAME");
  type_option = command.add_option("--type", type, "of the weights: f32, f16, bf16 or q8_0; default f16")
                    ->type_name("T");
  const auto store = [this](const std::vector<std::string>& given) {
    seed = std::stoull(given.back());
    return true;
  };
  seed_option = command.add_option("--seed", store, "of the random weights; default 0")
                    ->type_name("N")
                    ->expected(1)
                    ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
}

void check_synthesis(runnel_status status) {
  if (status == RUNNEL_BAD_ARGUMENT) {
    const std::string message = runnel_last_error();
    if (message.rfind("shape:", 0) == 0 || message.rfind("type:", 0) == 0) throw UsageError("--" + message);
  }
  check(status);
}

Model make_model(const SyntheticOptions& options, const runnel_config* config) {
  runnel_model* model = nullptr;
  CallProgress progress(options.shape);
  check_synthesis(runnel_model_synthetic(options.shape.c_str(), options.type.c_str(), options.seed, config,
                                         CallProgress::call, &progress, &model));
  return Model(model);
}

}  // namespace cli
