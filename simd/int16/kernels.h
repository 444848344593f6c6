// The kernels of int16, where an instruction set multiplies it faster than floats.
#pragma once
#include "simd/int16/matmul.h"
#include "simd/int16/pack.h"
#include "simd/int16/peak.h"
#include "simd/int16/quantize.h"

namespace runnel::simd {
namespace {

bool prefers_i16() noexcept { return true; }

// Tiles of so many panels and tokens.
template <size_t n_panels, size_t n_tok>
constexpr void with_i16(Kernels& kernels) noexcept {
  kernels.peak_i16 = peak_i16;
  kernels.pack_i16_f16 = pack_i16<AsF16>;
  kernels.pack_i16_bf16 = pack_i16<AsBf16>;
  kernels.quantize_i16 = quantize_i16;
  kernels.matmul_i16 = matmul_i16<n_panels, n_tok>;
  kernels.prefers_i16 = prefers_i16;
}

}  // namespace
}  // namespace runnel::simd
