// Products of words at best on one core: the instruction set's own (or its shortest sequence), on registers
// alone.
#pragma once
#include "simd/int8/peak.h"
#include "simd/words.h"

namespace runnel::simd {
namespace {

std::uint64_t peak_i16(size_t n) noexcept {
  return count_products(n, as_words(1), [](Words sum, Words a, Words b) noexcept {
    return (Words)add_pairs((PairSums)sum, a, b);
  });
}

}  // namespace
}  // namespace runnel::simd
