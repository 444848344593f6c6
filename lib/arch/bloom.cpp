// BLOOM (Scao et al. 2022): ALiBi positions, a norm after the embedding.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family bloom = {
    .name = "bloom",
    .norm = Norm::layer,
    .positions = Positions::alibi,
    .activation = Activation::gelu,
    .ffn = Ffn::plain,
    .embedding_norm = true,
    .biases = true,
};

}  // namespace runnel::families
