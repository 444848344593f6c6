// Numbers in the text files by which Linux tells of itself (/proc, /sys).
#pragma once
#include <cstdio>
#include <memory>
#include <string>

namespace runnel {

using TextFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Null where it cannot be opened.
inline TextFile open_text(const char* path) noexcept { return {std::fopen(path, "re"), std::fclose}; }

// The number that a file begins with; `absent` where there is none.
inline long read_number(const std::string& path, long absent) {
  long value = absent;
  const TextFile file = open_text(path.c_str());
  return file && std::fscanf(file.get(), "%ld", &value) == 1 ? value : absent;
}

}  // namespace runnel
