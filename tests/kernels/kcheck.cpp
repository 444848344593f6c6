// kcheck ISA      checks every kernel that the row supplies; exit status 77: this CPU cannot run it
// kcheck amx-emulated   checks the AMX row's products with their tile instructions emulated (amx_tiles.h)
// kcheck select   checks the choice among the rows
#include "tests/kernels/kcheck.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "simd/cpu_features.h"

namespace runnel::simd {

#if defined(KCHECK_EMULATES_AMX)
extern const Kernels kernels_amx_emulated;
#endif

bool Report::print(const char* format, std::va_list args) {
  constexpr std::size_t max_printed = 5;
  if (++failures_ > max_printed) return false;
  std::printf("    ");
  std::vprintf(format, args);
  std::printf("\n");
  return true;
}

void Report::expect(bool ok, const char* format, ...) {
  if (ok) return;
  std::va_list args;
  va_start(args, format);
  print(format, args);
  va_end(args);
}

void Report::near(double got, double expected, double tolerance, const char* format, ...) {
  if (got == expected || std::fabs(got - expected) <= tolerance) return;
  std::va_list args;
  va_start(args, format);
  const bool printed = print(format, args);
  va_end(args);
  if (printed) std::printf("      got %.9g, expected %.9g +- %.3g\n", got, expected, tolerance);
}

namespace {

bool is_built(const char* name) {
  const auto rows = isa_rows();
  return std::any_of(rows.begin(), rows.end(),
                     [=](const IsaRow& row) { return std::strcmp(row.name, name) == 0; });
}

// Those kernels of the table that `own` has.
int check_kernels(const Kernels& table, const Kernels& own) {
  bool ok = true;
#define X(kernel, result, params)                                               \
  if (own.kernel != nullptr) {                                                  \
    Report report;                                                              \
    check_##kernel(table, report);                                              \
    std::printf("%-14s %s\n", #kernel, report.failures() == 0 ? "ok" : "FAIL"); \
    ok = ok && report.failures() == 0;                                          \
  }
  RUNNEL_KERNELS(X)
#undef X
  return ok ? 0 : 1;
}

int check_row(const char* name) {
  if (!is_built(name)) {
    std::printf("no row %s in this build\n", name);
    return 2;
  }
  const IsaRow* row = nullptr;
  // The rows of Zen 4 and of Intel have no instruction that others lack.
  const Kernels table = select(name, cpu_features() | cpu_zen4 | cpu_intel, &row);
  return row != nullptr ? check_kernels(table, *row->kernels) : 77;
}

int check_emulated_amx() {
#if defined(KCHECK_EMULATES_AMX)
  const IsaRow* row = nullptr;
  Kernels table = select("avx512vnni", cpu_features(), &row);
  if (row == nullptr || (cpu_features() & cpu_avx512bf16) == 0) return 77;
  Kernels emulated = kernels_amx_emulated;
  emulated.peak_i8 = nullptr;  // would take minutes
#define X(kernel, result, params) \
  if (emulated.kernel != nullptr) table.kernel = emulated.kernel;
  RUNNEL_KERNELS(X)
#undef X
  return check_kernels(table, emulated);
#else
  return 77;
#endif
}

// Every entry of the selected table comes from the first row, from the chosen one down, that runs and has it.
void check_entries(const Kernels& table, std::size_t chosen, std::uint32_t features, Report& report) {
  const auto rows = isa_rows();
#define X(kernel, result, params)                                                                         \
  {                                                                                                       \
    std::size_t i = chosen;                                                                               \
    while (i < rows.size() && ((rows[i].needs & ~features) != 0 || rows[i].kernels->kernel == nullptr)) { \
      ++i;                                                                                                \
    }                                                                                                     \
    report.expect(i < rows.size() && table.kernel == rows[i].kernels->kernel, "%s of row %s", #kernel,    \
                  rows[chosen].name);                                                                     \
  }
  RUNNEL_KERNELS(X)
#undef X
}

void check_no_choice(const char* name, std::uint32_t features, Report& report) {
  const IsaRow* row = isa_rows().data();
  const Kernels table = select(name, features, &row);
  report.expect(row == nullptr && table.add == nullptr && table.matmul_few_f32 == nullptr,
                "%s must not be chosen", name);
}

int check_select() {
  Report report;
  const auto rows = isa_rows();
  const IsaRow& last = rows.back();
  report.expect(std::strcmp(last.name, "scalar") == 0 && last.needs == 0, "the last row is scalar");
  std::uint32_t all = 0;
  for (const IsaRow& row : rows) all |= row.needs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const IsaRow* const expected = &rows[i];
    const IsaRow* row = nullptr;
    const Kernels table = select(expected->name, all, &row);
    report.expect(row == expected, "%s by name", expected->name);
    check_entries(table, i, all, report);
    // What the activations look like is for the product to say, whatever rows are built beneath it.
    const Kernels& own = *expected->kernels;
    report.expect((own.matmul_i8 == nullptr) == (own.reads_split_i8 == nullptr) &&
                      (own.matmul_i8 == nullptr) == (own.least_raised_i8 == nullptr),
                  "matmul_i8 of row %s comes with what it reads", expected->name);
    if (expected->needs != 0) check_no_choice(expected->name, 0, report);
  }
  for (std::uint32_t features = 0; features <= all; ++features) {
    std::size_t best = 0;
    while ((rows[best].needs & ~features) != 0) ++best;
    const IsaRow* row = nullptr;
    const Kernels table = select(nullptr, features, &row);
    report.expect(row == &rows[best], "the best row for features %x", features);
    check_entries(table, best, features, report);
  }
  check_no_choice("no_such_row", all, report);
  check_no_choice("", all, report);
  return report.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace runnel::simd

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::strcmp(argv[1], "select") == 0) return runnel::simd::check_select();
  if (std::strcmp(argv[1], "amx-emulated") == 0) return runnel::simd::check_emulated_amx();
  return runnel::simd::check_row(argv[1]);
}
