// The blocks of a row of activations, the last of which may be shorter.
#pragma once
#include <cstring>

#include "simd/int8/vocabulary.h"

namespace runnel::simd {
namespace {

// 32 numbers of a row, those from n on zero.
struct FullBlock {
  float x[quant::i8_block] = {};
  FullBlock(const float* from, size_t n) noexcept { std::memcpy(x, from, n * sizeof *x); }
};

// What is left of the row from block b on.
inline size_t block_size(size_t n_cols, size_t b) noexcept {
  const size_t left = n_cols - b * quant::i8_block;
  return left < quant::i8_block ? left : quant::i8_block;
}

}  // namespace
}  // namespace runnel::simd
