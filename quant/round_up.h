// Whole numbers rounded up to a multiple. Kernel files include this header, so both must be inlined: see
// float16.h.
#pragma once
#include <cstddef>

namespace runnel::quant {

// a / b, rounded up.
[[gnu::always_inline]] constexpr std::size_t divided_up(std::size_t a, std::size_t b) noexcept {
  return (a + b - 1) / b;
}

// n, or the next multiple above.
[[gnu::always_inline]] constexpr std::size_t filled_up(std::size_t n, std::size_t multiple) noexcept {
  return divided_up(n, multiple) * multiple;
}

}  // namespace runnel::quant
