// Q8_0: blocks of 32 numbers as int8 with one f16 scale, 8.5 bits a number. The layout is that of GGUF files.
#pragma once
#include <cstddef>
#include <cstdint>

namespace runnel::quant {

constexpr float int8_most = 127.0f;  // magnitude of a code: -128 is not written

struct BlockQ8_0 {
  static constexpr std::size_t size = 32;
  std::uint16_t d;       // f16 scale
  std::int8_t qs[size];  // x[i] = d * qs[i]
};
static_assert(sizeof(BlockQ8_0) == 34);

// out: [n] f32, in: n / 32 blocks (any alignment); n % 32 == 0.
void decode_q8_0(float* out, const void* in, std::size_t n) noexcept;

// out: n / 32 blocks (any alignment), in: [n] f32; n % 32 == 0. For each block d = max |x| / 127, stored as
// f16, and qs[i] = x[i] / d (d before it is stored) to the nearest integer, halves away from zero, as GGUF
// tools do. Whatever f16 cannot hold stays defined: d saturates at 65504, a block too small for it becomes
// zeros, and so does a NaN.
void encode_q8_0(void* out, const float* in, std::size_t n) noexcept;

}  // namespace runnel::quant
