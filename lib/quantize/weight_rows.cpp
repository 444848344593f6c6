#include "lib/quantize/weight_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "lib/linear/linear.h"
#include "lib/text/number_text.h"
#include "lib/text/printable.h"
#include "quant/i8.h"

namespace runnel {
namespace {

constexpr std::size_t block_floats = std::size_t{4} << 20;

bool is_finite_row(const float* row, std::size_t n) {
  float sum = 0;  // a number that is not finite times 0 is NaN, and stays so
  for (std::size_t c = 0; c < n; ++c) sum += row[c] * 0.0f;
  return sum == 0.0f;
}

}  // namespace

std::size_t WeightRows::block_rows(std::size_t n_cols) {
  return std::max(block_floats / n_cols / quant::i8_panel_rows, std::size_t{1}) * quant::i8_panel_rows;
}

Result<float*> WeightRows::read(const GgufTensor& tensor, std::size_t begin, std::size_t n) {
  const std::size_t n_cols = tensor.dims[0];
  Linear matrix;
  matrix.type = tensor.type;
  matrix.data = tensor.data;
  matrix.n_rows = n_rows(tensor);
  matrix.n_cols = n_cols;
  if (rows_.size() < n * n_cols) rows_.resize(n * n_cols);
  std::atomic<std::size_t> first_bad{n};
  team_.run([&](Thread& thread) {
    const Range own = thread.split(n);
    for (std::size_t r = own.begin; r < own.end; ++r) {
      float* row = rows_.data() + r * n_cols;
      decode_row(kernels_, matrix, begin + r, row);
      if (is_finite_row(row, n_cols)) continue;
      std::size_t least = first_bad;
      while (r < least && !first_bad.compare_exchange_weak(least, r)) {
      }
      break;
    }
  });
  file_.drop_pages({tensor.data + begin * matrix.row_bytes(), n * matrix.row_bytes()});
  if (first_bad == n) return rows_.data();
  const float* row = rows_.data() + first_bad * n_cols;
  const float* bad = std::find_if(row, row + n_cols, [](float w) { return !std::isfinite(w); });
  return bad_weight(file_, tensor, begin + first_bad, static_cast<std::size_t>(bad - row), *bad,
                    "expected a finite number");
}

Error bad_weight(const GgufFile& file, const GgufTensor& tensor, std::size_t row, std::size_t col,
                 float value, const char* trouble) {
  const std::size_t per_matrix = tensor.dims[1];
  std::string where = "row " + std::to_string(row % per_matrix) + ", column " + std::to_string(col);
  if (tensor.rank > 2) where = "matrix " + std::to_string(row / per_matrix) + ", " + where;
  return error(RUNNEL_BAD_FILE, "%s: tensor %s holds %s at %s; %s", file.name().c_str(),
               printable(tensor.name).c_str(), number_text(value, 6).c_str(), where.c_str(), trouble);
}

}  // namespace runnel
