#include "synthetic.h"

#include "errors.h"
#include "names.h"
#include "progress.h"

namespace cli {

void SyntheticOptions::add_to(CLI::App& command) {
  const std::vector<std::string> shapes = names_of(runnel_shape_name);
  shape_option = add_choice(command, "--shape", shape, "NAME", shapes,
                            "random weights in the shape of " + joined(shapes));
  type_option = add_choice(command, "--type", type, "T", {"f32", "f16", "bf16", "q8_0"},
                           "of the weights: f32, f16, bf16 or q8_0; default f16");
  seed_option =
      add_unsigned(command, "--seed", seed, "of the random weights; 0 to 18446744073709551615; default 0");
}

Model make_model(const SyntheticOptions& options, const runnel_config* config) {
  runnel_model* model = nullptr;
  CallProgress progress(options.shape);
  check(runnel_model_synthetic(options.shape.c_str(), options.type.c_str(), options.seed, config,
                               CallProgress::call, &progress, &model));
  return Model(model);
}

}  // namespace cli
