// The core that a thread runs on, where the system tells.
#pragma once
#include <cstddef>

namespace runnel {

// The number of the calling thread's core at this moment; -1: not known.
int current_core() noexcept;

// Moves the calling thread to another of the cores that it may run on, if it is on `core` and may run on
// n_cores or more. Which ones it may run on stays as it was. True: it was moved. A thread that was under a
// system call filter (seccomp) when it first called this stays where it is.
bool leave_core(int core, std::size_t n_cores) noexcept;

}  // namespace runnel
