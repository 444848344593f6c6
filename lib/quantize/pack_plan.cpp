#include "lib/quantize/pack_plan.h"

#include <algorithm>
#include <charconv>

namespace runnel {
namespace {

using quant::TensorType;
using quant::VariantI8;

// Embedding and output matrices take groups of 32 as long as the matrices together stay at this.
constexpr double max_bits_per_weight = 8.25;

// "blk.12.attn_q.weight" in its parts.
struct Name {
  std::size_t layer = no_layer;
  std::string_view stem;  // "attn_q"
  std::string_view last;  // "weight", "bias"
};

Name parse(std::string_view text) {
  Name name;
  constexpr std::string_view block = "blk.";
  if (text.substr(0, block.size()) == block) {
    const std::size_t dot = text.find('.', block.size());
    if (dot != std::string_view::npos)
      std::from_chars(text.data() + block.size(), text.data() + dot, name.layer);
    if (name.layer != no_layer) text = text.substr(dot + 1);
  }
  const std::size_t dot = text.rfind('.');
  name.stem = text.substr(0, dot);
  name.last = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  return name;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_vocabulary(std::string_view stem) {
  return is_one_of(stem, {"token_embd", "output", "position_embd"});
}

std::optional<Site> site_read(const Name& name) {
  if (name.last != "weight") return std::nullopt;
  if (name.layer == no_layer) return name.stem == "output" ? std::optional(Site::output_in) : std::nullopt;
  if (is_one_of(name.stem, {"attn_q", "attn_k", "attn_v", "attn_qkv"})) return Site::attn_in;
  if (name.stem == "attn_output") return Site::attn_out;
  if (is_one_of(name.stem, {"ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps", "ffn_gate_inp"}))
    return Site::ffn_in;
  if (is_one_of(name.stem, {"ffn_down", "ffn_down_exps"})) return Site::ffn_hidden;
  return std::nullopt;
}

class Planner {
 public:
  Planner(const Model& model, bool keeps_q8_0) : model_(model), keeps_q8_0_(keeps_q8_0) {}

  PackPlan plan() {
    PackPlan result;
    const Family& family = model_.family();
    has_second_norm_ = model_.file().find_tensor("blk.0.attn_norm_2.weight") != nullptr;
    result.one_norm = family.parallel_ffn && !has_second_norm_;
    for (const GgufTensor& tensor : model_.file().tensors()) result.tensors.push_back(plan(tensor));
    const auto order = [](const PlannedTensor& t) { return t.layer + 1; };  // no_layer comes first
    std::stable_sort(result.tensors.begin(), result.tensors.end(),
                     [&](const PlannedTensor& a, const PlannedTensor& b) { return order(a) < order(b); });
    choose_vocabulary(result);
    return result;
  }

 private:
  PlannedTensor plan(const GgufTensor& tensor) const {
    const Name name = parse(tensor.name);
    PlannedTensor planned;
    planned.source = &tensor;
    planned.layer = name.layer;
    if (is_one_of(name.stem, {"output", "output_norm"})) planned.layer = model_.shape().n_layer;
    planned.reads = site_read(name);
    give(name, planned);
    if (tensor.type->holds_weights()) planned.treatment = Treatment::to_f32;
    if (can_pack(name, tensor)) {
      const bool is_q8_0 = keeps_q8_0_ && tensor.type->type == TensorType::q8_0;
      planned.treatment = is_q8_0 ? Treatment::pack_q8_0 : Treatment::pack;
      planned.shape = {is_q8_0 ? VariantI8::g32 : VariantI8::g128, tensor.dims[1], tensor.dims[0]};
      planned.n_matrix = tensor.rank > 2 ? tensor.dims[2] : 0;
    }
    return planned;
  }

  // Norm gains and biases, and the up-projection of a gated network, that make what a site's matrices read.
  void give(const Name& name, PlannedTensor& planned) const {
    if (name.layer == no_layer) return;
    const Family& family = model_.family();
    if (is_one_of(name.last, {"weight", "bias"})) {
      if (name.stem == "attn_norm")
        planned.gives = family.parallel_ffn && has_second_norm_ ? Site::ffn_in : Site::attn_in;
      else if (name.stem == "attn_norm_2")
        planned.gives = Site::attn_in;
      else if (name.stem == "ffn_norm")
        planned.gives = Site::ffn_in;
      else if (is_one_of(name.stem, {"ffn_up", "ffn_up_exps"}) && family.ffn != Ffn::plain)
        planned.gives = Site::ffn_hidden;
    }
    if (planned.gives == Site::ffn_hidden && family.ffn == Ffn::gated_in_one)
      planned.first_given = model_.shape().n_ff;  // the gate's half comes first
  }

  bool can_pack(const Name& name, const GgufTensor& tensor) const {
    const bool is_matrix = is_vocabulary(name.stem) || (site_read(name) && name.stem != "ffn_gate_inp");
    if (!is_matrix || name.last != "weight" || tensor.rank < 2 || tensor.rank > 3 ||
        !tensor.type->holds_weights())
      return false;
    if (tensor.dims[0] > quant::i8_max_size || tensor.dims[1] > quant::i8_max_size) return false;
    const Shape& shape = model_.shape();
    const auto is_panel = [](std::size_t n) { return n % quant::i8_panel_rows == 0; };
    if (name.stem == "attn_qkv") return is_panel(shape.n_embd_q()) && is_panel(shape.n_embd_k());
    if (name.stem == "ffn_up" && model_.family().ffn == Ffn::gated_in_one) return is_panel(shape.n_ff);
    return true;
  }

  void choose_vocabulary(PackPlan& plan) const {
    const auto set = [&](VariantI8 variant) {
      for (PlannedTensor& tensor : plan.tensors)
        if (tensor.treatment == Treatment::pack && is_vocabulary(parse(tensor.source->name).stem))
          tensor.shape.variant = variant;
    };
    set(VariantI8::g32);
    if (bits(plan) > max_bits_per_weight) set(VariantI8::g128);
  }

  // Per weight of all packed matrices, scales included; not of rows that fill up panels, of which models of
  // usual size have none.
  static double bits(const PackPlan& plan) {
    double n_bytes = 0, n_weights = 0;
    for (const PlannedTensor& tensor : plan.tensors) {
      if (!tensor.is_packed()) continue;
      const auto n_matrices = static_cast<double>(tensor.n_matrices());
      const double fill = static_cast<double>(tensor.shape.n_panels() * quant::i8_panel_rows) /
                          static_cast<double>(tensor.shape.n_rows);
      n_bytes += n_matrices * static_cast<double>(tensor.shape.bytes()) / fill;
      n_weights +=
          n_matrices * static_cast<double>(tensor.shape.n_rows) * static_cast<double>(tensor.shape.n_cols);
    }
    return n_weights > 0 ? 8 * n_bytes / n_weights : 0;
  }

  const Model& model_;
  bool keeps_q8_0_;
  bool has_second_norm_ = false;
};

}  // namespace

std::size_t layer_of(std::string_view tensor) { return parse(tensor).layer; }

PackPlan plan_packing(const Model& model, bool keeps_q8_0) { return Planner(model, keeps_q8_0).plan(); }

}  // namespace runnel
