// Loops that measure the processor and not the compiler.
#pragma once
#include "simd/vec.h"

namespace runnel::simd {
namespace {

// Hides a register's value from the compiler, which would else work it out by itself.
template <class Register>
inline void hide(Register& value) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("" : "+v"(value));
#else
  __asm__ volatile("" : "+w"(value));
#endif
}

// Sums enough to hide the latency of every instruction; few enough to stay in registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr size_t n_peak_sums = 24;
#else
constexpr size_t n_peak_sums = 12;
#endif

}  // namespace
}  // namespace runnel::simd
