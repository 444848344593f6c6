// Rounds the matrices of one tensor, block by block, into the panels of a packed file.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "lib/quantize/feedback.h"
#include "lib/quantize/pack_plan.h"
#include "lib/quantize/weight_rows.h"
#include "lib/result.h"

namespace runnel {

// How balancing changes a matrix, or a vector. Empty: not.
struct Fold {
  std::span<const float> columns;  // [n_cols]: columns are multiplied by these
  std::span<const float> rows;     // rows from first_row on are divided by these
  std::size_t first_row = 0;

  // One row of a matrix; false when the factors are not meant for its shape.
  bool apply(float* row, std::size_t n_cols, std::size_t i_row) const noexcept;
  // Numbers of which the one at first_row + i belongs to rows[i].
  bool divide_vector(float* values, std::size_t n) const noexcept;
};

Error misfit(const GgufFile& file, const GgufTensor& tensor);

class PanelPacker {
 public:
  // rows is borrowed.
  PanelPacker(WeightRows& rows, std::size_t n_threads) : rows_(rows), codes_(n_threads), scales_(n_threads) {}

  // Starts a tensor, borrowed until the next.
  void begin(const PlannedTensor& tensor);

  // Packs matrix i, 0 first, and gives its codes piece by piece to `write`. feedback: null for nearest.
  Result<void> pack(std::size_t i, const Fold& fold, const Feedback* feedback,
                    const std::function<Result<void>(std::span<const std::byte>)>& write);

  // Of all matrices packed since begin().
  std::span<const std::byte> scales() const { return std::as_bytes(std::span(all_scales_)); }

 private:
  Result<void> pack_block(std::size_t matrix, std::size_t begin, const quant::MutablePanelsI8& out,
                          const Fold& fold, const Feedback* feedback);
  Result<void> keep_block(std::size_t matrix, std::size_t begin, const quant::MutablePanelsI8& out);

  WeightRows& rows_;
  const PlannedTensor* tensor_ = nullptr;
  std::vector<std::int8_t> block_codes_;
  std::vector<std::uint16_t> all_scales_;
  std::vector<std::vector<std::int8_t>> codes_;     // of a row, one a thread
  std::vector<std::vector<std::uint16_t>> scales_;  // likewise
};

}  // namespace runnel
