#include "session_notes.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "console.h"

namespace cli {

void note_untrained_window(const runnel_model* model, const runnel_session* session) {
  const std::int64_t size = runnel_session_stat(session, RUNNEL_STAT_CACHE_SIZE);
  const std::int64_t trained = runnel_model_fact(model, RUNNEL_N_CTX_TRAIN);
  if (trained <= 0 || size <= trained) return;
  write_note("[the window lets the model see " + counted(size, "token") + " at once; it was trained on " +
             with_commas(trained) + ", and what it makes of more is likely to be worse]");
}

void note_unseen(const char* what, std::int64_t n_tokens) {
  if (n_tokens > 0)
    write_note(std::string("[the window could not hold all of the ") + what + ": " + with_commas(n_tokens) +
               " of its tokens " + (n_tokens == 1 ? "is" : "are") + " no longer seen]");
}

void note_reread(const runnel_model* model, std::int64_t n_tokens) {
  if (n_tokens == 0) return;
  const bool is_learned = runnel_model_fact(model, RUNNEL_CAN_STREAM) == 0;
  write_note((is_learned ? "[the window was full: " : "[") + counted(n_tokens, "token") +
             " read again, since " +
             (is_learned ? "this model has learned positions]"
                         : "layers with a window of their own had let go of them]"));
}

void note_threads(std::int64_t n_threads) {
  static bool is_said = false;
  const std::int64_t n_cores =
      std::max<std::int64_t>(std::thread::hardware_concurrency(), runnel_default_threads());
  if (n_threads > n_cores && !std::exchange(is_said, true))
    write_note("[" + counted(n_threads, "thread") + " on " + counted(n_cores, "core") +
               ": more threads than cores slow each other down]");
}

}  // namespace cli
