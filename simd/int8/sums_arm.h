// Sums of products that end as floats. Beginning with the bits of 1.5 * 2^23, where floats are 1 apart, an
// integer ends with those of 1.5 * 2^23 plus itself, and all that is left to do is one subtraction, which is
// exact. To convert four numbers takes ARM's cores four times as long: two cycles of one of the two units, by
// llvm-mca's models of the Neoverse N1 (Cortex-A76) and N2 (Cortex-A710).
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// Volatile, so as to be loaded each time: units that load have less to do than those that would copy it,
// which multiply, too.
inline int32x4_t sums_begin() noexcept {
  constexpr std::int32_t bits = 0x4b400000;
  static const volatile int32x4_t begin = {bits, bits, bits, bits};
  return begin;
}
// |sums| < 2^22. Those of a block are at most 32 * 128 * 127.
inline F32 sums_end(int32x4_t sums) noexcept { return F32(vreinterpretq_f32_s32(sums)) - F32(12582912.0f); }

// Clang would leave the ends of many sums till later, and has no registers for them.
inline void before_next_step(const F32& sum) noexcept { __asm__ volatile("" : : "w"(sum.data)); }

}  // namespace
}  // namespace runnel::simd
