// Falcon (Almazrouei et al. 2023): attention and feed-forward side by side.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family falcon = {
    .name = "falcon",
    .norm = Norm::layer,
    .positions = Positions::rope_halves,
    .activation = Activation::gelu,
    .ffn = Ffn::plain,
    .parallel_ffn = true,
};

}  // namespace runnel::families
