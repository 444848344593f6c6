// Whole numbers rounded up to a multiple.
#pragma once
#include <cstddef>

#include "quant/always_inline.h"

namespace runnel::quant {

// a / b, rounded up.
RUNNEL_ALWAYS_INLINE std::size_t divided_up(std::size_t a, std::size_t b) noexcept { return (a + b - 1) / b; }

// n, or the next multiple above.
RUNNEL_ALWAYS_INLINE std::size_t filled_up(std::size_t n, std::size_t multiple) noexcept {
  return divided_up(n, multiple) * multiple;
}

}  // namespace runnel::quant
