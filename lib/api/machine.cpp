// The C surface: the processor, and what it can do at best.
#include "lib/api/call.h"
#include "lib/linear/blas.h"
#include "lib/speed_limits.h"
#include "lib/system/performance_cores.h"
#include "simd/kernels.h"

using namespace runnel;

const char* runnel_isa(void) {
  const simd::IsaRow* row = nullptr;
  simd::select(nullptr, simd::cpu_features(), &row);
  return row->name;
}

const char* runnel_isa_available(size_t i) {
  for (const simd::IsaRow& row : simd::isa_rows()) {
    if (row.runs_on(simd::cpu_features()) && i-- == 0) return row.name;
  }
  return nullptr;
}

const char* runnel_blas_core(void) { return blas_core(); }

// These find out at the first call, which takes memory; where there is none they know nothing yet.
const char* runnel_blas_advice(void) {
  const char* advice = "";
  guard([&]() -> Result<void> {
    advice = blas_advice().c_str();
    return {};
  });
  return advice;
}

int32_t runnel_default_threads(void) {
  std::size_t n_threads = 1;
  guard([&]() -> Result<void> {
    n_threads = performance_cores();
    return {};
  });
  return static_cast<int32_t>(n_threads);
}

runnel_status runnel_measure_read(const runnel_model* model, const runnel_config* config,
                                  double* bytes_per_second) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(bytes_per_second);
    RUNNEL_ASSIGN(*bytes_per_second, measure_read(*model->model, settings_of(config)));
    return {};
  });
}

static_assert(static_cast<int>(Arithmetic::f32) == RUNNEL_F32 &&
              static_cast<int>(Arithmetic::i8) == RUNNEL_INT8 &&
              static_cast<int>(Arithmetic::i16) == RUNNEL_INT16);

runnel_status runnel_model_prompt_arithmetic(const runnel_model* model, const runnel_config* config,
                                             runnel_arithmetic* arithmetic) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(arithmetic);
    const Model& m = *model->model;
    RUNNEL_TRY(m.check_weights());
    RUNNEL_ASSIGN(const Arithmetic kind, prompt_arithmetic(m, settings_of(config)));
    *arithmetic = static_cast<runnel_arithmetic>(kind);
    return {};
  });
}

runnel_status runnel_measure_peak(runnel_arithmetic arithmetic, const runnel_config* config,
                                  double* multiply_adds_per_second) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(multiply_adds_per_second);
    if (arithmetic < RUNNEL_F32 || arithmetic > RUNNEL_INT16)
      return error(RUNNEL_BAD_ARGUMENT, "arithmetic is %d, expected RUNNEL_F32, RUNNEL_INT8 or RUNNEL_INT16",
                   static_cast<int>(arithmetic));
    RUNNEL_ASSIGN(*multiply_adds_per_second,
                  measure_peak(static_cast<Arithmetic>(arithmetic), settings_of(config)));
    return {};
  });
}
