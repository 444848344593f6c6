// Phi 3 and 3.5 (Abdin et al. 2024).
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family phi3 = {
    .name = "phi3",
    .norm = Norm::rms,
    .positions = Positions::rope_halves,
    .activation = Activation::silu,
    .ffn = Ffn::gated_in_one,
    .window = WindowPattern::all_layers,
};

}  // namespace runnel::families
