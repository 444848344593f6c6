// A piece of n things.
#pragma once
#include <cstddef>

#include "quant/round_up.h"

namespace runnel {

struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

using quant::divided_up;
using quant::filled_up;

// How much of n to take at a time, at most `most` (a multiple of `multiple`): multiples of it, all about as
// large, and no short one at the end that would hardly be worth its overhead.
constexpr std::size_t even_part(std::size_t n, std::size_t most, std::size_t multiple) noexcept {
  return filled_up(divided_up(n, divided_up(n, most)), multiple);
}

}  // namespace runnel
