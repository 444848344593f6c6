/* closed_library LIBRARY MODEL: a host that loads the library, works with two threads, and closes it again, a
 * few times. No thread is left that would lose the code it runs. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <runnel/runnel.h>
#include <stdio.h>
#include <unistd.h>

/* POSIX promises that a function's address survives this; C does not. */
#define LOAD(name) *(void**)(&p_##name) = dlsym(library, #name)
#define DECLARE(name) __typeof__(&(name)) p_##name

static int work(void* library, const char* path) {
  DECLARE(runnel_config_new);
  DECLARE(runnel_config_set);
  DECLARE(runnel_config_free);
  DECLARE(runnel_model_open);
  DECLARE(runnel_model_close);
  DECLARE(runnel_session_open);
  DECLARE(runnel_session_close);
  DECLARE(runnel_session_feed_text);
  DECLARE(runnel_session_generate);
  runnel_config* config = NULL;
  runnel_model* model = NULL;
  runnel_session* session = NULL;
  int failed;
  LOAD(runnel_config_new);
  LOAD(runnel_config_set);
  LOAD(runnel_config_free);
  LOAD(runnel_model_open);
  LOAD(runnel_model_close);
  LOAD(runnel_session_open);
  LOAD(runnel_session_close);
  LOAD(runnel_session_feed_text);
  LOAD(runnel_session_generate);
  failed = p_runnel_config_new(&config) || p_runnel_config_set(config, "threads", "2") ||
           p_runnel_config_set(config, "window", "64") || p_runnel_model_open(path, config, &model) ||
           p_runnel_session_open(model, config, &session) ||
           p_runnel_session_feed_text(session, "Hello", 5, 0) ||
           p_runnel_session_generate(session, 4, NULL, NULL, NULL);
  p_runnel_session_close(session);
  p_runnel_model_close(model);
  p_runnel_config_free(config);
  return failed;
}

int main(int argc, char** argv) {
  int i;
  if (argc != 3) return 2;
  for (i = 0; i < 5; ++i) {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (work(library, argv[2])) return fprintf(stderr, "the library could not do its work\n"), 1;
    dlclose(library);
    usleep(20000); /* a thread that is left would run into nothing */
  }
  return 0;
}
