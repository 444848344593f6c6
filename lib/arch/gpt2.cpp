// GPT-2 (Radford et al. 2019).
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family gpt2 = {
    .name = "gpt2",
    .norm = Norm::layer,
    .positions = Positions::learned,
    .activation = Activation::gelu,
    .ffn = Ffn::plain,
    .biases = true,
};

}  // namespace runnel::families
