// Products of int16 at best on one core: the instruction set's own (or its shortest sequence), on registers
// alone.
#pragma once
#include "simd/i16.h"
#include "simd/int8/peak.h"

namespace runnel::simd {
namespace {

std::uint64_t peak_i16(size_t n) noexcept {
  return count_products(n, broadcast_i16(1),
                        [](I16 sum, I16 a, I16 b) noexcept { return (I16)add_pairs((PairSums)sum, a, b); });
}

}  // namespace
}  // namespace runnel::simd
