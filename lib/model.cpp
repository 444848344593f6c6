#include "lib/model.h"

#include <cmath>

#include "lib/model_loader.h"

namespace runnel {
namespace {

constexpr std::size_t meta_text_chars = 200;

}  // namespace

Result<std::shared_ptr<const Model>> Model::open(const std::string& path, const Settings& settings) {
  RUNNEL_ASSIGN(GgufFile file, GgufFile::open(path));
  return load(std::move(file), settings);
}

Result<std::shared_ptr<const Model>> Model::from_memory(std::span<const std::byte> bytes,
                                                        const Settings& settings, const std::string& name) {
  RUNNEL_ASSIGN(GgufFile file, GgufFile::parse(bytes, name));
  return load(std::move(file), settings);
}

Result<std::shared_ptr<const Model>> Model::load(GgufFile file, const Settings& settings) {
  std::shared_ptr<Model> model(new Model(std::move(file)));
  const GgufFile& f = model->file_;
  for (const auto& [key, value] : f.metadata())
    model->meta_.emplace_back(key, to_text(value, meta_text_chars));
  for (const GgufTensor& tensor : f.tensors()) model->tensor_names_.emplace_back(tensor.name);
  RUNNEL_ASSIGN(model->architecture_, f.get_string("general.architecture"));

  RUNNEL_ASSIGN(const std::string_view kind, f.get_string("tokenizer.ggml.model", "no_vocab"));
  if (kind != "no_vocab" && kind != "none") {
    RUNNEL_ASSIGN(model->tokenizer_, Tokenizer::load(f));
    model->tokenizer_kind_ = kind;
  }

  if (settings.vocab_only) {
    if (!model->tokenizer_)
      return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer (tokenizer.ggml.model is %s)",
                   f.name().c_str(), f.find("tokenizer.ggml.model") ? "\"no_vocab\"" : "missing");
    return std::shared_ptr<const Model>(model);
  }
  const Family* family = find_family(model->architecture_);
  if (!family)
    return error(RUNNEL_UNSUPPORTED, "%s: architecture \"%.60s\" is not known; runnel runs %s",
                 f.name().c_str(), model->architecture_.c_str(), family_names());
  if (f.tensors().empty())
    return error(RUNNEL_BAD_FILE, "%s: the file holds a vocabulary only, no weights", f.name().c_str());
  model->family_ = family;
  RUNNEL_TRY(ModelLoader(*model).load());
  RUNNEL_TRY(model->rope(model->shape_.n_ctx_train));
  return std::shared_ptr<const Model>(model);
}

Result<Rope> Model::rope(std::size_t n_ctx) const {
  if (family_->positions != Positions::rope_adjacent && family_->positions != Positions::rope_halves)
    return Rope();
  const auto key = [&](const char* name) { return architecture_ + ".rope." + name; };
  const auto bad = [&](const char* name, double value) {
    return error(RUNNEL_BAD_FILE, "%s: %s is %g, which no rotation can have", file_.name().c_str(),
                 key(name).c_str(), value);
  };
  RopeParams p;
  const auto head_dim = static_cast<std::int64_t>(shape_.head_dim);
  RUNNEL_ASSIGN(const std::int64_t n_rot, file_.get_int(key("dimension_count"), 2, head_dim, head_dim));
  if (n_rot % 2 != 0) return bad("dimension_count", static_cast<double>(n_rot));
  p.n_rot = static_cast<std::size_t>(n_rot);
  RUNNEL_ASSIGN(p.base, file_.get_real(key("freq_base"), 10000.0));
  if (!(p.base > 1.0 && p.base < 1e15)) return bad("freq_base", p.base);

  RUNNEL_ASSIGN(const std::string_view scaling, file_.get_string(key("scaling.type"), "linear"));
  RUNNEL_ASSIGN(const double linear_factor, file_.get_real(key("scale_linear"), 0.0));
  RUNNEL_ASSIGN(double factor, file_.get_real(key("scaling.factor"), linear_factor));
  if (factor == 0.0 || scaling == "none" || scaling == "longrope") factor = 1.0;
  if (!(factor > 1e-3 && factor < 1e6)) return bad("scaling.factor", factor);
  p.scale = 1.0 / factor;
  RUNNEL_ASSIGN(p.magnitude, file_.get_real(key("scaling.attn_factor"), 1.0));
  if (!(std::fabs(p.magnitude) < 1e6)) return bad("scaling.attn_factor", p.magnitude);
  RUNNEL_ASSIGN(const std::int64_t n_ctx_original,
                file_.get_int(key("scaling.original_context_length"), 0, INT64_C(1) << 32,
                              static_cast<std::int64_t>(shape_.n_ctx_train)));
  p.n_ctx_original = static_cast<double>(n_ctx_original > 0 ? n_ctx_original
                                                            : static_cast<std::int64_t>(shape_.n_ctx_train));
  if (scaling == "yarn") {
    p.yarn = true;
    p.magnitude *= 1.0 + 0.1 * std::log(factor);
    RUNNEL_ASSIGN(p.beta_fast, file_.get_real(key("scaling.yarn_beta_fast"), 32.0));
    RUNNEL_ASSIGN(p.beta_slow, file_.get_real(key("scaling.yarn_beta_slow"), 1.0));
    if (!(p.beta_fast > 0 && p.beta_slow > 0)) return bad("scaling.yarn_beta_fast", p.beta_fast);
  } else if (scaling != "linear" && scaling != "none" && scaling != "longrope") {
    return error(RUNNEL_UNSUPPORTED, "%s: %s is \"%.40s\"; known are none, linear, yarn, longrope",
                 file_.name().c_str(), key("scaling.type").c_str(), std::string(scaling).c_str());
  }

  const bool is_long = static_cast<double>(n_ctx) > p.n_ctx_original;
  for (const char* name :
       {"rope_freqs.weight", is_long ? "rope_factors_long.weight" : "rope_factors_short.weight"}) {
    const GgufTensor* t = file_.find_tensor(name);
    if (!t) continue;
    if (t->dims[0] != p.n_rot / 2 || t->n_bytes != p.n_rot / 2 * sizeof(float) ||
        t->type->type != quant::TensorType::f32)
      return error(RUNNEL_BAD_FILE, "%s: tensor %s has %llu numbers of type %s, expected %zu of type F32",
                   file_.name().c_str(), name, static_cast<unsigned long long>(t->dims[0]), t->type->name,
                   p.n_rot / 2);
    const auto* factors = reinterpret_cast<const float*>(t->data);
    p.factors.assign(factors, factors + p.n_rot / 2);
    for (const float f : p.factors)
      if (!std::isfinite(1.0f / f))
        return error(RUNNEL_BAD_FILE, "%s: tensor %s divides a frequency by %g", file_.name().c_str(), name,
                     static_cast<double>(f));
  }
  return Rope(p);
}

}  // namespace runnel
