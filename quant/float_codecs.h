// Scalar reference codecs of the float formats: f32, f16 and bf16. Stored numbers need no alignment.
#pragma once
#include <cstddef>

namespace runnel::quant {

// out: [n] f32, in: [n] of the format; n may be 0, and the two must not overlap.
void decode_f32(float* out, const void* in, std::size_t n) noexcept;
void decode_f16(float* out, const void* in, std::size_t n) noexcept;
void decode_bf16(float* out, const void* in, std::size_t n) noexcept;

// out: [n] of the format, in: [n] f32. To nearest, ties to even; f16 overflows to infinity.
void encode_f32(void* out, const float* in, std::size_t n) noexcept;
void encode_f16(void* out, const float* in, std::size_t n) noexcept;
void encode_bf16(void* out, const float* in, std::size_t n) noexcept;

}  // namespace runnel::quant
