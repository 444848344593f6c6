// Llama 1, 2, 3 (Touvron et al. 2023; Dubey et al. 2024), Mistral, Mixtral, SmolLM and kin.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family llama = {
    .name = "llama",
    .norm = Norm::rms,
    .positions = Positions::rope_adjacent,
    .activation = Activation::silu,
    .ffn = Ffn::gated,
    .window = WindowPattern::all_layers,  // Mistral 0.1; others have no attention.sliding_window
    .scaled_ffn = true,
};

}  // namespace runnel::families
