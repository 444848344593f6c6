// Plain numbers in files: little endian, at any alignment.
#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

namespace runnel {

static_assert(std::endian::native == std::endian::little,
              "tensor data is used in place, in the file's byte order");

// Reads sizeof(T) bytes; the caller has checked that they are there.
template <class T>
T load(const std::byte* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace runnel
