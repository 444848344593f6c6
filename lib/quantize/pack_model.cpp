#include "lib/quantize/pack_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "lib/io/gguf_writer.h"
#include "lib/io/packed_file.h"
#include "lib/quantize/calibrate.h"
#include "lib/quantize/copy_tensor.h"
#include "lib/quantize/layer_factors.h"
#include "lib/quantize/moments.h"
#include "lib/quantize/pack_plan.h"
#include "lib/quantize/panel_packer.h"
#include "lib/quantize/weight_rows.h"
#include "lib/work.h"

namespace runnel {
namespace {

using quant::TensorType;

// Second moments that are held at a time. A model whose layers have more is calibrated in several passes.
constexpr std::size_t max_moment_bytes = std::size_t{448} << 20;

// A piece of calibration text costs about what packing the whole model twice does.
constexpr double piece_cost = 2.0;

// Keys that say what the old file was.
bool is_replaced(std::string_view key) {
  return key == gguf_alignment_key || key == packed_n_vocab_key || key == "general.file_type" ||
         key == "general.quantization_version";
}

class ModelPacker {
 public:
  ModelPacker(const Model& model, GgufWriter writer, const Quantization& how, const simd::Kernels& kernels,
              std::size_t n_threads)
      : model_(model),
        how_(how),
        kernels_(kernels),
        n_threads_(n_threads),
        plan_(plan_packing(model, how.calibration.empty())),
        team_(n_threads),
        rows_(model.file(), team_, kernels),
        packer_(rows_, n_threads),
        writer_(std::move(writer)) {}

  Result<void> pack() {
    RUNNEL_TRY(declare());
    if (!how_.calibration.empty()) {
      RUNNEL_ASSIGN(calibration_, Calibration::create(model_, how_.calibration));
    }
    begin_work();
    std::span<const PlannedTensor> rest(plan_.tensors);
    while (!rest.empty()) {
      const std::size_t layer = rest.front().layer;
      const auto end = std::find_if(rest.begin(), rest.end(),
                                    [&](const PlannedTensor& tensor) { return tensor.layer != layer; });
      const auto tensors = rest.first(static_cast<std::size_t>(end - rest.begin()));
      RUNNEL_TRY(pack_layer(layer, tensors));
      rest = rest.subspan(tensors.size());
    }
    return writer_.finish();
  }

 private:
  Result<void> declare() {
    for (const auto& [key, value] : model_.file().metadata())
      if (!is_replaced(key)) RUNNEL_TRY(writer_.add(key, value));
    RUNNEL_TRY(add_packed_keys(writer_, model_.shape().n_vocab));
    for (const PlannedTensor& tensor : plan_.tensors) {
      const GgufTensor& source = *tensor.source;
      if (tensor.is_packed()) {
        RUNNEL_TRY(add_packed(writer_, source.name, tensor.shape, tensor.n_matrix));
        continue;
      }
      const quant::TypeInfo& type =
          tensor.treatment == Treatment::copy ? *source.type : quant::type_info(TensorType::f32);
      RUNNEL_TRY(writer_.add_tensor(source.name, type, std::span(source.dims).first(source.rank)));
    }
    return {};
  }

  void begin_work() {
    double n_weights = 0;
    for (const PlannedTensor& tensor : plan_.tensors)
      n_weights += static_cast<double>(tensor.source->n_elements());
    const auto n_layers = static_cast<double>(model_.shape().n_layer);
    layer_units_ = std::ceil(piece_cost * n_weights / n_layers);  // whole, so that the sum is exact
    double n_passes = 0;
    for (std::size_t begin = 0; calibration_ && begin <= model_.shape().n_layer; begin = pass_end(begin))
      ++n_passes;
    const auto n_pieces = static_cast<double>(calibration_ ? calibration_->n_pieces() : 0);
    work_ = Work(how_.on_progress, n_weights + n_passes * n_pieces * n_layers * layer_units_);
  }

  // One past the last layer whose moments are held together with those of layer `begin`.
  std::size_t pass_end(std::size_t begin) const {
    std::size_t n_bytes = Moments::layer_bytes(model_.shape(), begin), end = begin + 1;
    while (end <= model_.shape().n_layer &&
           n_bytes + Moments::layer_bytes(model_.shape(), end) <= max_moment_bytes)
      n_bytes += Moments::layer_bytes(model_.shape(), end++);
    return end;
  }

  Result<void> collect_moments(std::size_t layer) {
    moments_.reset();  // the memory of the last ones first
    moments_ = std::make_unique<Moments>(model_, kernels_, layer, pass_end(layer));
    moments_end_ = pass_end(layer);
    return calibration_->run(model_, kernels_, n_threads_, *moments_,
                             [&] { return work_.advance(layer_units_); });
  }

  Result<void> pack_layer(std::size_t layer, std::span<const PlannedTensor> tensors) {
    if (calibration_ && layer <= model_.shape().n_layer && layer >= moments_end_) {
      RUNNEL_TRY(collect_moments(layer));
    }
    LayerFactors factors;
    if (layer < model_.shape().n_layer) {
      RUNNEL_ASSIGN(factors, LayerFactors::find(plan_, tensors, layer, moments_.get(), rows_));
    }
    for (const PlannedTensor& tensor : tensors) {
      RUNNEL_TRY(write(tensor, factors));
    }
    return {};
  }

  Result<void> write(const PlannedTensor& tensor, const LayerFactors& factors) {
    if (tensor.treatment == Treatment::copy)
      return copy_tensor(model_.file(), *tensor.source, writer_, work_);
    if (tensor.treatment == Treatment::to_f32) return write_f32(tensor, factors);
    packer_.begin(tensor);
    for (std::size_t i = 0; i < tensor.n_matrices(); ++i) {
      const SecondMoments* moments =
          moments_ && tensor.reads ? moments_->find(tensor.layer, *tensor.reads, reads_expert(tensor, i))
                                   : nullptr;
      const Fold fold = fold_of(tensor, factors, i);
      const std::optional<Feedback> feedback =
          moments && moments->n_cols == tensor.shape.n_cols && tensor.treatment == Treatment::pack
              ? std::optional<Feedback>(std::in_place, team_, *moments, fold.columns)
              : std::nullopt;
      const auto write_codes = [&](std::span<const std::byte> codes) -> Result<void> {
        RUNNEL_TRY(writer_.write(codes));
        return work_.advance(static_cast<double>(codes.size()));
      };
      RUNNEL_TRY(packer_.pack(i, fold, feedback ? &*feedback : nullptr, write_codes));
    }
    return writer_.write(packer_.scales());
  }

  static std::size_t reads_expert(const PlannedTensor& tensor, std::size_t matrix) {
    return tensor.reads == Site::ffn_hidden ? matrix : 0;
  }

  static Fold fold_of(const PlannedTensor& tensor, const LayerFactors& factors, std::size_t matrix) {
    Fold fold;
    if (tensor.reads) fold.columns = factors.at(*tensor.reads, reads_expert(tensor, matrix));
    if (tensor.gives) fold.rows = factors.at(*tensor.gives, matrix);
    fold.first_row = tensor.first_given;
    return fold;
  }

  // Vectors, one row of which is all there is to give (an expert's bias: one row each), and plain matrices.
  Result<void> write_f32(const PlannedTensor& tensor, const LayerFactors& factors) {
    const GgufTensor& source = *tensor.source;
    const std::size_t n_cols = source.dims[0], block = WeightRows::block_rows(n_cols);
    const bool is_vector = tensor.gives && !tensor.reads;
    for (std::size_t begin = 0; begin < n_rows(source); begin += block) {
      const std::size_t n = std::min(block, n_rows(source) - begin);
      RUNNEL_ASSIGN(float* values, rows_.read(source, begin, n));
      for (std::size_t r = 0; r < n; ++r) {
        const std::size_t row = begin + r, matrix = source.rank > 2 ? row / source.dims[1] : 0;
        Fold fold = fold_of(tensor, factors, is_vector ? row : matrix);
        const std::size_t row_in_matrix = source.rank > 2 ? row % source.dims[1] : row;
        const bool fits = is_vector ? fold.divide_vector(values + r * n_cols, n_cols)
                                    : fold.apply(values + r * n_cols, n_cols, row_in_matrix);
        if (!fits) return misfit(model_.file(), source);
      }
      RUNNEL_TRY(writer_.write(std::as_bytes(std::span(values, n * n_cols))));
      RUNNEL_TRY(work_.advance(static_cast<double>(n * n_cols)));
    }
    return {};
  }

  const Model& model_;
  const Quantization& how_;
  const simd::Kernels& kernels_;
  std::size_t n_threads_;
  PackPlan plan_;
  Team team_;
  WeightRows rows_;
  PanelPacker packer_;
  GgufWriter writer_;
  std::optional<Calibration> calibration_;
  std::unique_ptr<Moments> moments_;
  std::size_t moments_end_ = 0;  // one past their last layer
  Work work_{{}, 0};
  double layer_units_ = 0;  // of one layer that reads a piece of calibration text
};

}  // namespace

Result<void> pack_model(const Model& model, GgufWriter writer, const Quantization& how,
                        const simd::Kernels& kernels, std::size_t n_threads) {
  return ModelPacker(model, std::move(writer), how, kernels, n_threads).pack();
}

}  // namespace runnel
