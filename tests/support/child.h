// A child process of the test's own.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

namespace runnel::test {

// What a forked process ends with: what work() gives there, an int, or 128 + the signal that ends it, as one
// does after a minute; -1 where there is no such process.
template <class Work>
int exit_code_of_child(Work work, pid_t (*fork_here)() = fork) {
  const pid_t child = fork_here();
  if (child == 0) {
    alarm(60);
    try {
      _exit(work());
    } catch (...) {  // what is thrown must not go on into the tests
      _exit(127);
    }
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace runnel::test
