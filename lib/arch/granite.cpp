// Granite 3 (IBM 2024): Llama with factors on embedding, residuals, scores and logits, which the file holds.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family granite = {
    .name = "granite",
    .norm = Norm::rms,
    .positions = Positions::rope_adjacent,
    .activation = Activation::silu,
    .ffn = Ffn::gated,
    .divides_logits = true,
};

}  // namespace runnel::families
