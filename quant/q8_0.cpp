#include "quant/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/float16.h"
#include "quant/max_magnitude.h"

namespace runnel::quant {
namespace {

std::int8_t to_nearest(float value) noexcept {
  if (std::isnan(value)) return 0;
  return static_cast<std::int8_t>(std::clamp(std::round(value), -int8_most, int8_most));
}

BlockQ8_0 encode_block(const float* in) noexcept {
  const float scale = std::min(max_magnitude(in, BlockQ8_0::size) / int8_most, f16_max);
  BlockQ8_0 block{};
  block.d = f32_to_f16(scale);
  if (block.d == 0) return block;
  const float inverse = 1.0f / scale;
  for (std::size_t i = 0; i < BlockQ8_0::size; ++i) block.qs[i] = to_nearest(in[i] * inverse);
  return block;
}

}  // namespace

void decode_q8_0(float* out, const void* in, std::size_t n) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (std::size_t i = 0; i < n; i += BlockQ8_0::size, bytes += sizeof(BlockQ8_0)) {
    BlockQ8_0 block;
    std::memcpy(&block, bytes, sizeof block);
    const float scale = f16_to_f32(block.d);
    for (std::size_t j = 0; j < BlockQ8_0::size; ++j) out[i + j] = scale * static_cast<float>(block.qs[j]);
  }
}

void encode_q8_0(void* out, const float* in, std::size_t n) noexcept {
  auto* bytes = static_cast<unsigned char*>(out);
  for (std::size_t i = 0; i < n; i += BlockQ8_0::size, bytes += sizeof(BlockQ8_0)) {
    const BlockQ8_0 block = encode_block(in + i);
    std::memcpy(bytes, &block, sizeof block);
  }
}

}  // namespace runnel::quant
