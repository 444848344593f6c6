// Qwen 3 (Yang et al. 2025): each head's query and key are normalised before they are rotated.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family qwen3 = {
    .name = "qwen3",
    .norm = Norm::rms,
    .positions = Positions::rope_halves,
    .activation = Activation::silu,
    .ffn = Ffn::gated,
    .head_norms = true,
    .scaled_ffn = true,
};

}  // namespace runnel::families
