// What a function of the library gives, in tests that cannot go on without.
#pragma once
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "lib/result.h"

namespace runnel::test {

template <class T>
T require(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace runnel::test
