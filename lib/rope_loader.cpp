#include "lib/rope_loader.h"

#include <algorithm>
#include <cmath>

#include "lib/text/number_text.h"
#include "lib/text/printable.h"

namespace runnel {

Error RopeLoader::bad(const char* name, double value) const {
  return error(RUNNEL_BAD_FILE, "%s: %s is %s, which no rotation can have", file_.name().c_str(),
               key(name).c_str(), number_text(value, 6).c_str());
}

Result<RopeParams> RopeLoader::load(std::size_t n_ctx) {
  RUNNEL_TRY(read_frequencies());
  RUNNEL_TRY(read_scaling());
  const bool is_long = static_cast<double>(n_ctx) > params_.n_ctx_original;
  RUNNEL_TRY(read_factors(rope_freqs_tensor));
  const bool has_long = file_.find_tensor(rope_long_tensor), has_short = file_.find_tensor(rope_short_tensor);
  if (has_long != has_short)
    return error(RUNNEL_BAD_FILE, "%s: tensor %s is missing", file_.name().c_str(),
                 has_long ? rope_short_tensor : rope_long_tensor);
  RUNNEL_TRY(read_factors(is_long ? rope_long_tensor : rope_short_tensor));
  return params_;
}

Result<std::size_t> RopeLoader::n_ctx_default() {
  if (!file_.find_tensor(rope_long_tensor)) return shape_.n_ctx_train;
  RUNNEL_TRY(read_scaling());
  return std::min(shape_.n_ctx_train, static_cast<std::size_t>(params_.n_ctx_original));
}

Result<void> RopeLoader::read_frequencies() {
  const auto head_dim = static_cast<std::int64_t>(shape_.head_dim);
  const bool is_told = file_.find(key("dimension_count")) != nullptr;
  if (head_dim < 2 || (head_dim % 2 != 0 && !is_told))
    return error(
        RUNNEL_BAD_FILE,
        "%s: heads have %zu numbers (attention.key_length, or embedding_length / attention.head_count), "
        "expected an even count, for they are rotated in pairs",
        file_.name().c_str(), shape_.head_dim);
  RUNNEL_ASSIGN(const std::int64_t n_rot, file_.get_int(key("dimension_count"), 2, head_dim, head_dim));
  if (n_rot % 2 != 0) return bad("dimension_count", static_cast<double>(n_rot));
  params_.n_rot = static_cast<std::size_t>(n_rot);
  RUNNEL_ASSIGN(params_.base, file_.get_real(key("freq_base"), 10000.0));
  if (!(params_.base > 1.0 && params_.base < 1e15)) return bad("freq_base", params_.base);
  return check_window_base();
}

// That of the layers with a window of their own (llama.cpp's src/models/gemma2.cpp).
Result<void> RopeLoader::check_window_base() const {
  if (shape_.native_window == 0) return {};
  RUNNEL_ASSIGN(const double base, file_.get_real(key("freq_base_swa"), params_.base));
  if (base == params_.base) return {};
  return error(RUNNEL_UNSUPPORTED, "%s: %s is %s, but runnel rotates in all layers by %s, which is %s",
               file_.name().c_str(), key("freq_base_swa").c_str(), number_text(base, 6).c_str(),
               key("freq_base").c_str(), number_text(params_.base, 6).c_str());
}

Result<void> RopeLoader::read_scaling() {
  RUNNEL_ASSIGN(const std::string_view type, file_.get_string(key("scaling.type"), "linear"));
  if (type != "none" && type != "linear" && type != "yarn" && type != "longrope")
    return error(RUNNEL_UNSUPPORTED, "%s: %s is \"%s\"; known are none, linear, yarn, longrope",
                 file_.name().c_str(), key("scaling.type").c_str(), printable(type, 40).c_str());
  RUNNEL_ASSIGN(const double linear_factor, file_.get_real(key("scale_linear"), 0.0));
  RUNNEL_ASSIGN(double factor, file_.get_real(key("scaling.factor"), linear_factor));
  if (factor == 0.0 || type == "none" || type == "longrope") factor = 1.0;
  if (!(factor > 1e-3 && factor < 1e6))
    return bad(file_.find(key("scaling.factor")) ? "scaling.factor" : "scale_linear", factor);
  params_.scale = 1.0 / factor;
  RUNNEL_ASSIGN(params_.magnitude, file_.get_real(key("scaling.attn_factor"), 1.0));
  if (!(std::fabs(params_.magnitude) < 1e6)) return bad("scaling.attn_factor", params_.magnitude);

  const auto n_ctx_train = static_cast<std::int64_t>(shape_.n_ctx_train);
  RUNNEL_ASSIGN(const std::int64_t n_ctx_original,
                file_.get_int(key("scaling.original_context_length"), 0, INT64_C(1) << 32, n_ctx_train));
  params_.n_ctx_original = static_cast<double>(n_ctx_original > 0 ? n_ctx_original : n_ctx_train);
  if (type == "yarn") RUNNEL_TRY(read_yarn(factor));
  return {};
}

// The magnitude is that of YaRN's section 3.4.
Result<void> RopeLoader::read_yarn(double factor) {
  params_.yarn = true;
  params_.magnitude *= 1.0 + 0.1 * std::log(factor);
  RUNNEL_ASSIGN(params_.beta_fast, file_.get_real(key("scaling.yarn_beta_fast"), 32.0));
  if (!(params_.beta_fast > 0)) return bad("scaling.yarn_beta_fast", params_.beta_fast);
  RUNNEL_ASSIGN(params_.beta_slow, file_.get_real(key("scaling.yarn_beta_slow"), 1.0));
  if (!(params_.beta_slow > 0)) return bad("scaling.yarn_beta_slow", params_.beta_slow);
  return {};
}

Result<void> RopeLoader::read_factors(const char* tensor_name) {
  const GgufTensor* t = file_.find_tensor(tensor_name);
  if (!t) return {};
  const std::size_t n = params_.n_rot / 2;
  if (t->dims[0] != n || t->n_bytes != n * sizeof(float) || t->type->type != quant::TensorType::f32)
    return error(RUNNEL_BAD_FILE, "%s: tensor %s has shape %s and type %s, expected %zu numbers of type F32",
                 file_.name().c_str(), tensor_name, shape_text(*t).c_str(), t->type->name, n);
  const auto* factors = reinterpret_cast<const float*>(t->data);
  params_.factors.assign(factors, factors + n);
  for (const float f : params_.factors)
    if (!std::isfinite(1.0f / f))
      return error(RUNNEL_BAD_FILE, "%s: tensor %s divides a frequency by %s", file_.name().c_str(),
                   tensor_name, number_text(f, 6).c_str());
  return {};
}

}  // namespace runnel
