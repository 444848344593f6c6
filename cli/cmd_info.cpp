// runnel info: what a file holds, what the machine offers, what a session will take.
#include <map>
#include <memory>

#include "commands.h"
#include "console.h"
#include "errors.h"
#include "json.h"
#include "model_path.h"
#include "names.h"
#include "options.h"
#include "settings.h"

namespace cli {
namespace {

constexpr const char* examples =
    "  runnel info                                  this machine and the bundled model\n"
    "  runnel info model.gguf --window 16384        what a session with that window needs\n"
    "  runnel info model.gguf --all                 every metadata key and tensor\n"
    "  runnel info model.gguf --json\n"
    "\n"
    "Of a model that runnel is not made for, but whose tokenizer it knows, what its file holds is shown too, "
    "and\n"
    "why it cannot be run.";

struct InfoOptions {
  std::string model;
  bool all = false;
  bool json = false;
  SettingOptions settings;
};

Json machine_report(const runnel_config* config) {
  const std::int32_t n_default = runnel_default_threads();
  const int n_threads = std::stoi(runnel_config_get(config, "threads"));
  return {{"isa", isa_name(runnel_config_get(config, "isa"))},
          {"isa_available", names_of(runnel_isa_available)},
          {"blas_core", runnel_blas_core()},
          {"blas_advice", runnel_blas_advice()},
          {"threads", n_threads > 0 ? n_threads : n_default},
          {"default_threads", n_default}};
}

struct Opened {
  Model model;
  std::string cannot_run;  // why; empty where it can be, and of a vocabulary alone
};

// Null where it does not open.
Model try_vocabulary(const std::string& path) {
  try {
    return open_vocabulary(path);
  } catch (const Failure&) {
    return nullptr;
  }
}

// A tokenizer's file without weights opens too, and one with weights or of an architecture that runnel is not
// made for. What is wrong with any other file is told.
Opened open_any(const std::string& path, const runnel_config* config) {
  try {
    return {open_model(path, config), ""};
  } catch (const Failure& failure) {
    Model vocabulary = try_vocabulary(path);
    if (!vocabulary) throw;
    if (runnel_model_tensor_name(vocabulary.get(), 0) == nullptr) return {std::move(vocabulary), ""};
    if (dynamic_cast<const Unsupported*>(&failure) == nullptr) throw;
    return {std::move(vocabulary), failure.what()};
  }
}

constexpr struct {
  runnel_fact fact;
  const char* name;
} facts[] = {
    {RUNNEL_N_VOCAB, "n_vocab"},
    {RUNNEL_N_EMBD, "n_embd"},
    {RUNNEL_N_LAYER, "n_layer"},
    {RUNNEL_N_HEAD, "n_head"},
    {RUNNEL_N_HEAD_KV, "n_head_kv"},
    {RUNNEL_HEAD_DIM, "head_dim"},
    {RUNNEL_N_FF, "n_ff"},
    {RUNNEL_N_CTX_TRAIN, "n_ctx_train"},
    {RUNNEL_N_EXPERT, "n_expert"},
    {RUNNEL_N_EXPERT_USED, "n_expert_used"},
    {RUNNEL_NATIVE_WINDOW, "native_window"},
    {RUNNEL_N_PARAMETERS, "n_parameters"},
    {RUNNEL_WEIGHT_BYTES, "weight_bytes"},
    {RUNNEL_HAS_WEIGHTS, "has_weights"},
    {RUNNEL_HAS_TOKENIZER, "has_tokenizer"},
    {RUNNEL_CAN_STREAM, "can_stream"},
    {RUNNEL_TOKEN_BOS, "token_bos"},
    {RUNNEL_TOKEN_EOS, "token_eos"},
    {RUNNEL_TOKEN_EOT, "token_eot"},
    {RUNNEL_ADDS_BOS, "adds_bos"},
};

Json tensor_report(const runnel_model* model, std::size_t i) {
  Json shape = Json::array();
  for (std::size_t dim = 0; dim < 4; ++dim) shape.push_back(runnel_model_tensor_dim(model, i, dim));
  while (shape.size() > 1 && shape.back() == 1) shape.erase(shape.size() - 1);
  return {{"name", runnel_model_tensor_name(model, i)},
          {"type", runnel_model_tensor_type(model, i)},
          {"shape", std::move(shape)},
          {"bytes", runnel_model_tensor_bytes(model, i)}};
}

// Appended, where the object would compare each key with all before it: the library refuses a file that has
// one twice.
Json metadata_report(const runnel_model* model) {
  Json report = Json::object();
  auto& entries = report.get_ref<Json::object_t&>();
  for (std::size_t i = 0; const char* key = runnel_model_meta_key(model, i); ++i)
    entries.emplace_back(key, runnel_model_meta_value(model, i));
  return report;
}

Json session_report(const runnel_model* model, const runnel_config* config) {
  std::int64_t cache_bytes = 0, scratch_bytes = 0;
  check_settings(runnel_model_session_bytes(model, config, &cache_bytes, &scratch_bytes));
  return {{"cache_bytes", cache_bytes}, {"scratch_bytes", scratch_bytes}};
}

Json model_report(const Opened& opened, const std::string& path, const runnel_config* config, bool all) {
  const runnel_model* const model = opened.model.get();
  Json out = {{"path", path},
              {"architecture", runnel_model_architecture(model)},
              {"tokenizer", runnel_model_tokenizer(model)}};
  for (const auto& row : facts) out[row.name] = runnel_model_fact(model, row.fact);
  if (!opened.cannot_run.empty()) out["cannot_run"] = opened.cannot_run;

  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_type;  // tensors, bytes
  for (std::size_t i = 0; runnel_model_tensor_name(model, i); ++i) {
    auto& [n_tensors, n_bytes] = by_type[runnel_model_tensor_type(model, i)];
    ++n_tensors;
    n_bytes += runnel_model_tensor_bytes(model, i);
  }
  out["tensor_types"] = Json::object();
  for (const auto& [type, sums] : by_type) {
    out["tensor_types"][type] = {{"tensors", sums.first}, {"bytes", sums.second}};
  }
  if (out["has_weights"] == 1) {
    out["session_default"] = session_report(model, nullptr);
    out["session"] = session_report(model, config);
  }
  if (!all) return out;
  out["metadata"] = metadata_report(model);
  out["tensors"] = Json::array();
  for (std::size_t i = 0; runnel_model_tensor_name(model, i); ++i) {
    out["tensors"].push_back(tensor_report(model, i));
  }
  return out;
}

// ---- the same for people ----

// "  name            text"
std::string row(std::string_view name, const std::string& text) {
  return left_aligned("  " + std::string(name) + " ", 18) + one_line(text) + "\n";
}

std::string machine_text(const Json& machine) {
  std::string others;
  for (const Json& name : machine["isa_available"]) {
    if (name != machine["isa"]) others += (others.empty() ? "" : ", ") + name.get<std::string>();
  }
  const std::string core = machine["blas_core"], advice = machine["blas_advice"];
  std::string text = "machine\n";
  text += row("kernels",
              machine["isa"].get<std::string>() + (others.empty() ? "" : " (also here: " + others + ")"));
  text += row("OpenBLAS", core.empty() ? "not built in" : core + " kernels");
  if (!advice.empty()) text += row("", advice);
  return text + row("threads", std::to_string(machine["threads"].get<int>()));
}

std::string shape_text(const Json& model) {
  const auto number = [&model](const char* name) { return with_commas(model[name].get<std::int64_t>()); };
  const auto all = [&model](const char* name, const char* noun) {
    return counted(model[name].get<std::int64_t>(), noun);
  };
  std::string text = all("n_layer", "layer") + ", width " + number("n_embd") + ", feed-forward " +
                     number("n_ff") + ", " + all("n_head", "head") + " of " + number("head_dim") + " (" +
                     number("n_head_kv") + " for keys and values)";
  if (model["n_expert"] > 0) text += ", " + number("n_expert_used") + " of " + all("n_expert", "expert");
  return text;
}

std::string tokenizer_text(const Json& model) {
  if (model["has_tokenizer"] == 0) return "none in the file";
  std::string text =
      model["tokenizer"].get<std::string>() + ", " + counted(model["n_vocab"].get<std::int64_t>(), "token");
  constexpr std::pair<const char*, const char*> special[] = {
      {"token_bos", "BOS"}, {"token_eos", "EOS"}, {"token_eot", "end of turn"}};
  for (const auto& [key, name] : special) {
    if (model[key] >= 0)
      text += std::string(", ") + name + " " + std::to_string(model[key].get<std::int64_t>());
  }
  return text;
}

std::string context_text(const Json& model) {
  std::string text = counted(model["n_ctx_train"].get<std::int64_t>(), "token") + " trained";
  if (model["native_window"] > 0) {
    text += ", own window of " + with_commas(model["native_window"].get<std::int64_t>());
  }
  return text + (model["can_stream"] == 1
                     ? "; streams without end"
                     : "; learned positions: streams by reading the last half window again");
}

std::string session_text(const Json& session) {
  return bytes_text(session["cache_bytes"]) + " cache + " + bytes_text(session["scratch_bytes"]) + " scratch";
}

std::string model_text(const Json& model, bool settings_given) {
  std::string text = row("path", model["path"]) + row("architecture", model["architecture"]);
  if (model["has_weights"] == 1) {
    text += row("shape", shape_text(model)) + row("context", context_text(model));
    text += row("parameters", with_commas(model["n_parameters"].get<std::int64_t>()));
  }
  text += row("tokenizer", tokenizer_text(model));
  if (model["tensor_types"].empty()) return text + row("weights", "none: a vocabulary alone");
  text += row("weights", bytes_text(model["weight_bytes"]));
  for (const auto& [type, sums] : model["tensor_types"].items()) {
    text += row("", type + ": " + counted(sums["tensors"].get<std::int64_t>(), "tensor") + ", " +
                        bytes_text(sums["bytes"]));
  }
  if (model.contains("cannot_run")) return text + row("cannot run", model["cannot_run"]);
  text += row("session takes", session_text(model["session_default"]) + " by default");
  if (settings_given) text += row("", session_text(model["session"]) + " with the options given");
  return text;
}

std::string all_text(const Json& model) {
  std::string text = "metadata\n";
  for (const auto& [key, value] : model["metadata"].items()) {
    text += "  " + one_line(key) + " = " + one_line(value.get<std::string>()) + "\n";
  }
  text += "tensors\n";
  for (const Json& tensor : model["tensors"]) {
    std::string shape;
    for (const Json& extent : tensor["shape"]) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent.get<std::int64_t>());
    }
    text += "  " + one_line(tensor["name"].get<std::string>()) + "  " + tensor["type"].get<std::string>() +
            "  " + shape + "  " + bytes_text(tensor["bytes"]) + "\n";
  }
  return text;
}

int run_info(const InfoOptions& options) {
  const Config config = options.settings.config();
  const std::string path = model_or_bundled(options.model);
  const Opened opened = open_any(path, config.get());
  const Json machine = machine_report(config.get());
  const Json report = model_report(opened, path, config.get(), options.all);
  if (options.json) {
    write_json({{"version", runnel_version()}, {"machine", machine}, {"model", report}});
    return exit_ok;
  }
  write_out(std::string("runnel ") + runnel_version() + "\n" + machine_text(machine) +
            (options.model.empty() ? "bundled model\n" : "model\n") +
            model_text(report, options.settings.any_given()) + (options.all ? all_text(report) : ""));
  return exit_ok;
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App& command = add_command(app, "info", "Show what a model file holds and what it needs", examples);
  add_optional_model(command, options->model);
  add_flag(command, "--all", options->all, "every metadata key and tensor too");
  add_flag(command, "--json", options->json, "one JSON object");
  options->settings.add_to(command, SettingOptions::Which::evaluation);
  on_command(command, run, [options] { return run_info(*options); });
}

}  // namespace cli
