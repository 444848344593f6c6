// Keeps what is generated.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace runnel::test {

// To be called with pieces of text; `user` is the std::string that they go to.
inline int append(void* user, const char* text, std::size_t n_bytes, std::int32_t) {
  static_cast<std::string*>(user)->append(text, n_bytes);
  return 0;
}

}  // namespace runnel::test
