#include "lib/pack_weights.h"

#include <atomic>

namespace runnel {
namespace {

constexpr std::size_t alignment = 64;  // of the codes

// Memory for a packed matrix.
quant::MutablePanelsI8 allocate(const quant::ShapeI8& shape,
                                std::vector<std::unique_ptr<std::byte[]>>& storage) {
  storage.push_back(std::make_unique_for_overwrite<std::byte[]>(shape.bytes() + alignment));
  void* start = storage.back().get();
  std::size_t space = shape.bytes() + alignment;
  std::align(alignment, shape.bytes(), start, space);
  auto* codes = static_cast<std::int8_t*>(start);
  return {shape, codes, reinterpret_cast<std::uint16_t*>(codes + shape.n_codes())};
}

// Packs a few panels at a time: decoded rows stay in the cache. Returns false at a weight that is not finite.
bool pack_part(const Linear& w, const quant::MutablePanelsI8& out, Range rows, std::vector<float>& decoded,
               std::size_t* bad_row, std::size_t* bad_col) {
  for (std::size_t r = rows.begin; r < rows.end; r += quant::i8_panel_rows) {
    const std::size_t n = std::min(quant::i8_panel_rows, rows.end - r);
    for (std::size_t i = 0; i < n; ++i)
      w.type->decode(decoded.data() + i * w.n_cols, w.data + (r + i) * w.row_bytes(), w.n_cols);
    if (!quant::pack_rows_i8(out.rows(r, n), decoded.data(), bad_row, bad_col)) {
      *bad_row += r;
      return false;
    }
  }
  return true;
}

}  // namespace

Result<void> pack_matrix(Team& team, Linear& matrix, quant::VariantI8 variant, const std::string& name,
                         std::vector<std::unique_ptr<std::byte[]>>& storage) {
  const bool is_q8_0 = matrix.type->type == quant::TensorType::q8_0;
  const quant::ShapeI8 shape{is_q8_0 ? quant::VariantI8::g32 : variant, matrix.n_rows, matrix.n_cols};
  const quant::MutablePanelsI8 out = allocate(shape, storage);
  std::vector<std::vector<float>> decoded(team.size());
  for (auto& rows : decoded) rows.resize(is_q8_0 ? 0 : quant::i8_panel_rows * matrix.n_cols);
  std::atomic<bool> is_finite{true};
  std::size_t bad_row = 0, bad_col = 0;
  team.run([&](Thread& thread) {
    const Range rows = thread.split(matrix.n_rows, quant::i8_panel_rows);
    if (rows.size() == 0) return;
    if (is_q8_0)
      return quant::pack_q8_0_i8(out.rows(rows.begin, rows.size()),
                                 matrix.data + rows.begin * matrix.row_bytes());
    std::size_t row = 0, col = 0;
    if (!pack_part(matrix, out, rows, decoded[thread.index()], &row, &col) && is_finite.exchange(false)) {
      bad_row = row;
      bad_col = col;
    }
  });
  if (!is_finite)
    return error(RUNNEL_BAD_FILE, "tensor %s: the weight at row %zu, column %zu is not a finite number",
                 name.c_str(), bad_row, bad_col);
  quant::clear_rows_i8(out);
  matrix.packed = {shape, out.codes, out.scales};
  matrix.data = nullptr;
  return {};
}

}  // namespace runnel
