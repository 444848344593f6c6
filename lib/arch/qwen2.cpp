// Qwen 2 and 2.5 (Yang et al. 2024).
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family qwen2 = {
    .name = "qwen2",
    .norm = Norm::rms,
    .positions = Positions::rope_halves,
    .activation = Activation::silu,
    .ffn = Ffn::gated,
};

}  // namespace runnel::families
