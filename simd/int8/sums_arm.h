// Where sums of int8 products begin on ARM.
#pragma once
#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// Volatile, so as to be loaded each time: units that load have less to do than those that would copy it,
// which multiply, too.
inline int32x4_t sums_begin() noexcept {
  static const volatile int32x4_t begin = {quant::i8_base_bits, quant::i8_base_bits, quant::i8_base_bits,
                                           quant::i8_base_bits};
  return begin;
}
// The same of sums that two neighbours of add up to.
inline int32x4_t sums_begin_by_two() noexcept {
  static const volatile int32x4_t begin = {quant::i8_base_bits, 0, quant::i8_base_bits, 0};
  return begin;
}

// Clang would leave the ends of many sums till later, and has no registers for them.
inline void before_next_step(const F32& sum) noexcept { __asm__ volatile("" : : "w"(sum.data)); }

}  // namespace
}  // namespace runnel::simd
