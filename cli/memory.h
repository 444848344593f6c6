// Bytes of memory that this process holds, and the most that it ever held; 0 where the system does not tell.
#pragma once
#include <cstdint>

namespace cli {

std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace cli
