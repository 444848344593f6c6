// The threads of this process that the system has, whoever began them.
#pragma once
#include <sys/stat.h>

namespace runnel::test {

// 0 where it does not tell. One that was joined may be on its way out, and counts until it is gone.
inline nlink_t n_system_threads() {
  struct stat tasks {};  // whose links are its own two and its folders'
  return stat("/proc/self/task", &tasks) == 0 ? tasks.st_nlink - 2 : 0;
}

}  // namespace runnel::test
