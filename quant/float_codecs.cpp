#include "quant/float_codecs.h"

#include <cstdint>
#include <cstring>

#include "quant/float16.h"

namespace runnel::quant {
namespace {

template <float (*convert)(std::uint16_t)>
void decode_16(float* out, const void* in, std::size_t n) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    out[i] = convert(bits);
  }
}

template <std::uint16_t (*convert)(float)>
void encode_16(void* out, const float* in, std::size_t n) noexcept {
  auto* bytes = static_cast<unsigned char*>(out);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t bits = convert(in[i]);
    std::memcpy(bytes + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

void decode_f32(float* out, const void* in, std::size_t n) noexcept {
  if (n != 0) std::memcpy(out, in, n * sizeof(float));
}
void encode_f32(void* out, const float* in, std::size_t n) noexcept {
  if (n != 0) std::memcpy(out, in, n * sizeof(float));
}

void decode_f16(float* out, const void* in, std::size_t n) noexcept { decode_16<f16_to_f32>(out, in, n); }
void encode_f16(void* out, const float* in, std::size_t n) noexcept { encode_16<f32_to_f16>(out, in, n); }
void decode_bf16(float* out, const void* in, std::size_t n) noexcept { decode_16<bf16_to_f32>(out, in, n); }
void encode_bf16(void* out, const float* in, std::size_t n) noexcept { encode_16<f32_to_bf16>(out, in, n); }

}  // namespace runnel::quant
