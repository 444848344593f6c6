// Packs a loaded model's matrices to int8 in memory, for models whose file is not packed.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "lib/model.h"
#include "lib/result.h"

namespace runnel {

// Packs a matrix with all threads of the team: Q8_0 as it is, in groups of 32, others by `variant`. Its new
// bytes are appended to `storage`. A weight that is not finite is an error that names `name`, row and column.
Result<void> pack_matrix(Team& team, Linear& matrix, quant::VariantI8 variant, const std::string& name,
                         std::vector<std::unique_ptr<std::byte[]>>& storage);

}  // namespace runnel
