#include "lib/system/core.h"

#if defined(__linux__)
#include <sched.h>

#include "lib/system/system_number.h"
#endif

namespace runnel {

#if defined(__linux__)

namespace {

// Whether the calling thread's system calls go through a filter, which may end the process for one that is
// seldom made. True where that is not known.
// Source: proc_pid_status(5), Seccomp; seccomp(2).
bool is_filtered() noexcept {
  const TextFile status = open_text("/proc/thread-self/status");
  char line[256];
  int mode = -1;
  while (mode < 0 && status && std::fgets(line, sizeof line, status.get()))
    if (std::sscanf(line, "Seccomp: %d", &mode) != 1) mode = -1;
  return mode != 0;
}

}  // namespace

int current_core() noexcept { return sched_getcpu(); }

bool leave_core(int core, std::size_t n_cores) noexcept {
  thread_local const bool filtered = is_filtered();  // by the first call: later ones allocate nothing
  if (filtered || core < 0 || core >= CPU_SETSIZE || current_core() != core) return false;
  cpu_set_t allowed;  // more cores than it has room for: the call fails
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  if (static_cast<std::size_t>(CPU_COUNT(&allowed)) < n_cores) return false;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (sched_setaffinity(0, sizeof others, &others) != 0) return false;  // no other: it stays
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

#else

int current_core() noexcept { return -1; }

bool leave_core(int, std::size_t) noexcept { return false; }

#endif

}  // namespace runnel
