// The table of kernel rows that this build has, and the choice among them.
#include <cstring>
#include <iterator>

#include "simd/cpu_features.h"
#include "simd/kernels.h"

namespace runnel::simd {

// isa_table.inc is written by simd/meson.build: one RUNNEL_ISA_ROW(name, needs) for each row, best first.
#define RUNNEL_ISA_ROW(name, needs) extern const Kernels kernels_##name;
#include "simd/isa_table.inc"
#undef RUNNEL_ISA_ROW

namespace {

constexpr IsaRow rows[] = {
#define RUNNEL_ISA_ROW(name, needs) {#name, needs, &kernels_##name},
#include "simd/isa_table.inc"
#undef RUNNEL_ISA_ROW
};

// The best row that the features allow, or the one of that name; end of the rows if there is none.
const IsaRow* find(const char* name, std::uint32_t features) noexcept {
  for (const IsaRow& row : rows) {
    if ((name == nullptr || std::strcmp(row.name, name) == 0) && row.runs_on(features)) return &row;
  }
  return std::end(rows);
}

void lay_over(Kernels& table, const Kernels& row) noexcept {
#define X(name, result, params) \
  if (row.name != nullptr) table.name = row.name;
  RUNNEL_KERNELS(X)
#undef X
}

}  // namespace

std::span<const IsaRow> isa_rows() noexcept { return rows; }

Kernels select(const char* name, std::uint32_t features, const IsaRow** row) noexcept {
  Kernels table;
  const IsaRow* const chosen = find(name, features);
  *row = chosen != std::end(rows) ? chosen : nullptr;
  for (const IsaRow* r = std::end(rows); r != chosen;) {
    --r;
    if (r->runs_on(features)) lay_over(table, *r->kernels);
  }
  return table;
}

}  // namespace runnel::simd
