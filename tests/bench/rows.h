// What the benchmark programs have in common: the rows of kernels that this processor runs, and the start.
#pragma once
#include <benchmark/benchmark.h>

#include "simd/kernels.h"

namespace runnel::bench {

// register_row(row, kernels) for each row of kernels that runs here, the best first.
template <class Register>
void for_each_row(Register register_row) {
  for (const simd::IsaRow& built : simd::isa_rows()) {
    const simd::IsaRow* row = nullptr;
    const simd::Kernels kernels = simd::select(built.name, simd::cpu_features(), &row);
    if (row != nullptr) register_row(*row, kernels);
  }
}

template <class Register>
int run(int argc, char** argv, Register register_all) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace runnel::bench
