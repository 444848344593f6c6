// Floats as C and C++ programs begin with them: rounded to the nearest, subnormal numbers as they are, no
// signal for what is infinite or no number. A host may have changed that on its threads, and the threads that
// they start begin with the same; the kernels count on it (simd/float/exp.h), and so do equal results on any
// number of threads.
#pragma once
#include <cfenv>

namespace runnel {

// On this thread for as long as the object lives; the host's are then as they were.
class DefaultFloats {
 public:
  DefaultFloats() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace runnel
