#include "lib/quantize/panel_packer.h"

#include <algorithm>
#include <atomic>

#include "lib/text/printable.h"

namespace runnel {

using quant::MutablePanelsI8;
using quant::ShapeI8;

bool Fold::apply(float* row, std::size_t n_cols, std::size_t i_row) const noexcept {
  if (!columns.empty()) {
    if (columns.size() != n_cols) return false;
    for (std::size_t c = 0; c < n_cols; ++c) row[c] *= columns[c];
  }
  if (rows.empty() || i_row < first_row) return true;
  if (i_row - first_row >= rows.size()) return false;
  for (std::size_t c = 0; c < n_cols; ++c) row[c] /= rows[i_row - first_row];
  return true;
}

bool Fold::divide_vector(float* values, std::size_t n) const noexcept {
  if (rows.empty()) return true;
  if (n != first_row + rows.size()) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) values[first_row + i] /= rows[i];
  return true;
}

Error misfit(const GgufFile& file, const GgufTensor& tensor) {
  return error(RUNNEL_BAD_FILE, "%s: the shape of tensor %s does not fit the others of its layer",
               file.name().c_str(), printable(tensor.name).c_str());
}

void PanelPacker::begin(const PlannedTensor& tensor) {
  tensor_ = &tensor;
  const ShapeI8& shape = tensor.shape;
  const std::size_t n = std::min(WeightRows::block_rows(shape.n_cols), shape.n_rows);
  block_codes_.resize(ShapeI8{shape.variant, n, shape.n_cols}.n_codes());
  all_scales_.resize(shape.n_scales() * tensor.n_matrices());
  for (auto& codes : codes_) codes.resize(shape.n_cols);
  for (auto& scales : scales_) scales.resize(shape.n_groups());
}

Result<void> PanelPacker::pack(std::size_t i, const Fold& fold, const Feedback* feedback,
                               const std::function<Result<void>(std::span<const std::byte>)>& write) {
  const ShapeI8& shape = tensor_->shape;
  const std::size_t block = WeightRows::block_rows(shape.n_cols);
  for (std::size_t begin = 0; begin < shape.n_rows; begin += block) {
    const std::size_t n = std::min(block, shape.n_rows - begin);
    const MutablePanelsI8 out{
        {shape.variant, n, shape.n_cols},
        block_codes_.data(),
        all_scales_.data() + i * shape.n_scales() + begin / quant::i8_panel_rows * shape.panel_scales()};
    RUNNEL_TRY(tensor_->treatment == Treatment::pack_q8_0 ? keep_block(i, begin, out)
                                                          : pack_block(i, begin, out, fold, feedback));
    RUNNEL_TRY(write(std::as_bytes(std::span(block_codes_).first(out.shape.n_codes()))));
  }
  return {};
}

Result<void> PanelPacker::pack_block(std::size_t matrix, std::size_t begin, const MutablePanelsI8& out,
                                     const Fold& fold, const Feedback* feedback) {
  const std::size_t n = out.shape.n_rows, n_cols = out.shape.n_cols,
                    first = matrix * tensor_->shape.n_rows + begin;
  RUNNEL_ASSIGN(float* rows, rows_.read(*tensor_->source, first, n));
  std::atomic<bool> fits{true};
  rows_.team().run([&](Thread& thread) {
    const Range own = thread.split(n, quant::i8_panel_rows);
    if (own.size() == 0) return;
    const MutablePanelsI8 part = out.rows(own.begin, own.size());
    for (std::size_t r = own.begin; r < own.end; ++r) {
      float* row = rows + r * n_cols;
      std::int8_t* codes = codes_[thread.index()].data();
      std::uint16_t* scales = scales_[thread.index()].data();
      if (!fold.apply(row, n_cols, begin + r)) fits = false;
      // A factor may carry a weight near the end of f32's range over it; no model has one.
      for (std::size_t c = 0; c < n_cols; ++c) row[c] = std::clamp(row[c], -0x1p126f, 0x1p126f);
      if (feedback)
        feedback->quantize_row(codes, scales, row, out.shape.variant);
      else
        quant::quantize_row_i8(codes, scales, row, n_cols, out.shape.variant);
      quant::store_row_i8(part, r - own.begin, codes, scales);
    }
    quant::clear_rows_i8(part);
  });
  if (!fits) return misfit(rows_.file(), *tensor_->source);
  return {};
}

Result<void> PanelPacker::keep_block(std::size_t matrix, std::size_t begin, const MutablePanelsI8& out) {
  const GgufTensor& source = *tensor_->source;
  const std::size_t n = out.shape.n_rows, first = matrix * tensor_->shape.n_rows + begin;
  const std::size_t n_blocks = out.shape.n_groups();
  const auto* const blocks = reinterpret_cast<const quant::BlockQ8_0*>(source.data) + first * n_blocks;
  rows_.team().run([&](Thread& thread) {
    const Range own = thread.split(n, quant::i8_panel_rows);
    if (own.size() > 0)
      rows_.kernels().pack_q8_0(out.rows(own.begin, own.size()), blocks + own.begin * n_blocks);
  });
  RUNNEL_TRY(rows_.read(source, first, n));  // for its check of every number
  return {};
}

}  // namespace runnel
