// What Linux tells of huge pages.
#pragma once
#include <cstdio>
#include <fstream>
#include <string>

namespace runnel::test {

// Kilobytes of this process that lie in huge pages, of all memory that is no file's.
inline long huge_kib() {
  std::ifstream smaps("/proc/self/smaps_rollup");
  long kib = 0;
  for (std::string line; std::getline(smaps, line);)
    if (std::sscanf(line.c_str(), "AnonHugePages: %ld kB", &kib) == 1) return kib;
  return 0;
}

}  // namespace runnel::test
