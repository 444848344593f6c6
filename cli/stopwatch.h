// How long work takes.
#pragma once
#include <cstdint>

namespace cli {

struct Elapsed {
  std::int64_t ns;
  std::int64_t cpu_ns;  // of all threads of the process; on a busy machine less depends on who else runs
};

class Stopwatch {
 public:
  Stopwatch();
  Elapsed elapsed() const;  // since it was made
  double seconds() const;

 private:
  Elapsed start_;
};

}  // namespace cli
