// What int8 costs one row of activations.
#pragma once
#include <cstddef>

namespace runnel {

// Squared error of x [n] as int8 products see it, over its squared norm: with the entries far outside the
// rest carried in float, as the products do, or with all of them in int8. 0 for a row of zeros, NaN for one
// that is not finite.
double int8_error(const float* x, std::size_t n, bool carry);

}  // namespace runnel
