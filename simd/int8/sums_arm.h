// Sums of products on ARM. To convert four numbers takes its cores four times as long as to subtract them:
// two cycles of one of the two units, by llvm-mca's models of the Neoverse N1 (Cortex-A76) and N2
// (Cortex-A710).
#pragma once
#include "simd/int8/float_sums.h"

namespace runnel::simd {
namespace {

// Volatile, so as to be loaded each time: units that load have less to do than those that would copy it,
// which multiply, too.
inline int32x4_t sums_begin() noexcept {
  static const volatile int32x4_t begin = {float_sums_begin, float_sums_begin, float_sums_begin,
                                           float_sums_begin};
  return begin;
}
inline F32 sums_end(int32x4_t sums) noexcept { return float_sums_end(vreinterpretq_f32_s32(sums)); }

// Clang would leave the ends of many sums till later, and has no registers for them.
inline void before_next_step(const F32& sum) noexcept { __asm__ volatile("" : : "w"(sum.data)); }

}  // namespace
}  // namespace runnel::simd
