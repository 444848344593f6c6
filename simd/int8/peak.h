// int8 products at best on one core: the instruction set's own (or its shortest sequence), on registers
// alone.
#pragma once
#include "simd/hide.h"
#include "simd/int8/bytes.h"

namespace runnel::simd {
namespace {

// add(sum, one, one) n times over on independent sums of int32; `one` is a register of ones. Returns the
// total.
template <class Register, class Add>
inline std::uint64_t count_products(size_t n, Register one, Add add) noexcept {
  Register sums[n_peak_sums];
  RUNNEL_UNROLL
  for (auto& sum : sums) {
    sum = no_sums();
    hide(sum);  // or they would all be the same, and one
  }
  for (size_t i = 0; i < n; ++i) {
    RUNNEL_UNROLL
    for (auto& sum : sums) {
      hide(one);  // or products would be made before the loop
      sum = add(sum, one, one);
    }
  }
  std::uint64_t total = 0;
  RUNNEL_UNROLL
  for (const auto& sum : sums) {
    std::int32_t all[sizeof sum / sizeof(std::int32_t)];
    __builtin_memcpy(all, &sum, sizeof sum);
    for (const std::int32_t count : all) total += static_cast<std::uint64_t>(count);
  }
  return total;
}

std::uint64_t peak_i8(size_t n) noexcept { return count_products(n, all_ones(), add_dots); }

}  // namespace
}  // namespace runnel::simd
