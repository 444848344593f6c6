// How many threads the system grants, for a runtime that ends the process where it is refused one.
#pragma once
#include <cstddef>

namespace runnel {

// n at most: they are started, kept until all are there, and ended. None of them counts against the system's
// limits any more on return.
std::size_t granted_threads(std::size_t n) noexcept;

}  // namespace runnel
