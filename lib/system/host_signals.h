// Signals that a thread of ours leaves to the host's threads: all but those of faults. One of the host's may
// hold a signal back while it is amid what the handler must not find halfway, and the signal would come here
// instead.
#pragma once
#include <pthread.h>

#include <csignal>

namespace runnel {

// Blocks them on the calling thread, and on the threads it starts, which begin with what is blocked on it.
class HostSignalsBlocked {
 public:
  HostSignalsBlocked() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~HostSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HostSignalsBlocked(const HostSignalsBlocked&) = delete;
  HostSignalsBlocked& operator=(const HostSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace runnel
