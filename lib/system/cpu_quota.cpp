#include "lib/system/cpu_quota.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "lib/system/system_number.h"

namespace runnel {
namespace {

constexpr std::size_t no_limit = SIZE_MAX;

// Both in microseconds; what is not positive is no limit (version 1 writes -1).
std::size_t whole_cores(long quota, long period) {
  if (quota <= 0 || period <= 0) return no_limit;
  return static_cast<std::size_t>(std::max(1L, quota / period));
}

// cpu.max holds "QUOTA PERIOD", or "max PERIOD".
std::size_t version_2_limit(const std::string& group) {
  long quota = -1, period = -1;
  const TextFile file = open_text((group + "/cpu.max").c_str());
  return file && std::fscanf(file.get(), "%ld %ld", &quota, &period) == 2 ? whole_cores(quota, period)
                                                                          : no_limit;
}

std::size_t version_1_limit(const std::string& group) {
  return whole_cores(read_number(group + "/cpu.cfs_quota_us", -1),
                     read_number(group + "/cpu.cfs_period_us", -1));
}

// The least of a group's limit and those of all it is in. In a container the path may name the host's groups,
// of which only the last, the mounted one, is there.
template <class Limit>
std::size_t least_limit(const std::string& mount, std::string_view path, Limit limit) {
  std::size_t least = no_limit;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    least = std::min(least, limit(mount + std::string(path)));
    if (path.empty()) return least;
    path = path.substr(0, path.rfind('/') + 1);
  }
}

// Of a list like "cpu,cpuacct".
bool names_cpu(std::string_view controllers) {
  for (;;) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == "cpu") return true;
    if (end == std::string_view::npos) return false;
    controllers.remove_prefix(end + 1);
  }
}

// A line of /proc/self/cgroup, "ID:CONTROLLERS:/PATH"; version 2 has ID 0 and no controllers.
std::size_t limit_of_line(const std::string& root, std::string_view line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") return no_limit;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const std::string_view path = line.substr(second + 1);
  if (controllers.empty()) return least_limit(root + "/sys/fs/cgroup", path, version_2_limit);
  if (names_cpu(controllers)) return least_limit(root + "/sys/fs/cgroup/cpu", path, version_1_limit);
  return no_limit;
}

}  // namespace

std::size_t cpu_quota(const std::string& root) {
  const TextFile file = open_text((root + "/proc/self/cgroup").c_str());
  std::size_t least = no_limit;
  char line[4096];
  while (file && std::fgets(line, sizeof line, file.get())) {
    std::string_view text = line;
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    least = std::min(least, limit_of_line(root, text));
  }
  return least;
}

}  // namespace runnel
