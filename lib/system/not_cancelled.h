// A host may cancel (pthread_cancel) a thread of its own amid a call. The thread would be unwound through
// functions that are noexcept, which ends the process, and from wherever it is.
#pragma once
#include <pthread.h>

namespace runnel {

// Holds a cancellation of this thread back for as long as the object lives.
class NotCancelled {
 public:
#if defined(PTHREAD_CANCEL_DISABLE)
  NotCancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
#else
  NotCancelled() noexcept {}  // Android cancels no threads
  ~NotCancelled() {}
#endif
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

}  // namespace runnel
