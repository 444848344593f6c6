#include "memory.h"

#include <fstream>
#include <string>

namespace cli {
namespace {

// A line of proc(5)'s status: "VmRSS:     1234 kB". getrusage() knows the most, too, but as the largest of
// this program and of the one that started it.
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word; status.ignore(4096, '\n')) {
    std::int64_t n_kib = 0;
    if (word == name && status >> n_kib) return n_kib * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace cli
