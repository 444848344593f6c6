// Gemma 2 (Gemma Team 2024): norms before and after each block, soft caps, a local window in every other
// layer.
#include "lib/arch/family.h"

namespace runnel::families {

constexpr Family gemma2 = {
    .name = "gemma2",
    .norm = Norm::rms,
    .positions = Positions::rope_halves,
    .activation = Activation::gelu,
    .ffn = Ffn::gated,
    .window = WindowPattern::even_layers,
    .default_window = 4096,
    .post_norms = true,
    .scale_embedding = true,
    .n_layer_scaled_by_width = 46,  // 27B: query_pre_attn_scalar is 144, its heads have 128 numbers
    .default_attn_soft_cap = 50.0,
    .default_logit_soft_cap = 30.0,
};

}  // namespace runnel::families
