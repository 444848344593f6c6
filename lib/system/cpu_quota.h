// CPU time that Linux's control groups leave this process: containers' limits, systemd's CPUQuota.
#pragma once
#include <cstddef>
#include <string>

namespace runnel {

// Whole cores' worth of CPU time that this process may use, at least 1; SIZE_MAX without a limit. A team of
// more threads would use up its share of each period early, and stand still for the rest of it. `root`: where
// /proc and /sys are looked for.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst (version 1).
std::size_t cpu_quota(const std::string& root = "");

}  // namespace runnel
