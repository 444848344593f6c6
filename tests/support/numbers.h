// Measures of how far two results are apart.
#pragma once
#include <cstddef>
#include <vector>

namespace runnel::test {

// Normalised mean squared error: sum (a - b)^2 / sum b^2.
template <class A, class B>
double nmse(const A* a, const B* b, std::size_t n) {
  double difference = 0, power = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    power += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference / power;
}

}  // namespace runnel::test
