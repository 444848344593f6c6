// One stream of tokens through a model: cache, forward pass, sampler, and the text that comes out.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/forward.h"
#include "lib/kv_cache.h"
#include "lib/model.h"
#include "lib/result.h"
#include "lib/session/sampler.h"
#include "lib/session/stop_text.h"
#include "lib/session/token_history.h"
#include "lib/session/turn_marks.h"
#include "lib/settings.h"
#include "lib/system/parallel.h"

namespace runnel {

class SavedFile;
class SavedFieldReader;
class SavedFieldWriter;

// What a session is to hold, from settings and model; windows that the model cannot have are errors.
Result<CacheSize> cache_size(const Model& model, const Settings& settings);

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(std::shared_ptr<const Model> model, const Settings& settings);

  const Model& model() const { return *model_; }
  const Settings& settings() const { return settings_; }
  const KvCache& cache() const { return cache_; }

  void reset() { reset(settings_.sinks); }
  // With another prefix, for which there is room. Memory may be short for that: all is then as it was.
  void reset(std::int64_t n_prefix);
  // An empty stream whose first n_prefix tokens are to stay; sampler and statistics go on as they are. After
  // an error (no window would be left, or no memory) all is as it was.
  Result<void> restart(std::int64_t n_prefix);
  Result<void> check_prefix(std::int64_t n_prefix) const;
  Result<void> pin(std::int64_t n_tokens);  // see runnel_session_pin
  Result<void> set(std::string_view name, std::string_view value);

  // A call of the C surface begins. It may feed and generate several times: a stop() from here on ends it as
  // a whole, one from before does not.
  void begin_call() { stop_.store(false, std::memory_order_relaxed); }
  void stop() { stop_.store(true, std::memory_order_relaxed); }
  bool is_stopping() const { return heeds_stops_ && stop_.load(std::memory_order_relaxed); }
  // As long as it lives no stop ends the work.
  class Unstopped {
   public:
    explicit Unstopped(Session& session) : session_(session) { session_.heeds_stops_ = false; }
    ~Unstopped() { session_.heeds_stops_ = true; }
    Unstopped(const Unstopped&) = delete;
    Unstopped& operator=(const Unstopped&) = delete;

   private:
    Session& session_;
  };

  // See runnel_session_feed and runnel_session_generate.
  Result<void> feed(std::span<const Token> tokens, runnel_logits_fn on_logits, void* user);
  Result<Token> sample();
  static Result<void> check_count(std::int64_t n_tokens);  // of a generation
  Result<runnel_finish> generate(std::int64_t n_tokens, runnel_text_fn on_text, void* user);
  // Reads the token that ended the last generate(), as one more that is generated.
  void read_end_token();

  void set_observer(std::unique_ptr<Observer> observer);  // null: none
  // See runnel_session_on_progress.
  void set_progress(runnel_progress_fn on_progress, void* user) { progress_ = {on_progress, user}; }

  // A text that ends an answer like those of the setting "stop"; "", also after a reset, for none. And
  // whether it was this that came up in the last generate(), also where the piece before it was refused; or
  // whether one of "stop" did that ends with it.
  void set_answer_end(std::string text) noexcept { stop_text_.set_answer_end(std::move(text)); }
  bool found_answer_end() const { return stop_text_.found_answer_end(); }
  bool has_answer_end() const { return stop_text_.has_answer_end(); }

  // An exchange begins at this position, which may be ahead of what was read. Positions come in order.
  void mark_turn(std::int64_t position);
  const TurnMarks& turns() const { return turns_; }

  // What the setting "evict" means while it is "auto": whole exchanges (a chat), or tokens.
  void set_chat(bool is_chat) { is_chat_ = is_chat; }
  bool evicts_turns() const;

  const float* logits() const { return last_logits_; }  // null before the first token

  // See runnel_session_rewind. The sampler's history becomes what is then seen; its random numbers go on.
  Result<void> rewind(std::int64_t position);
  std::int64_t position() const { return n_read_; }  // tokens read since the start or the last reset
  std::int64_t n_prefix() const { return cache_.size().n_prefix; }
  std::int64_t n_total() const { return n_prefix() + cache_.size().window; }  // what the cache holds
  // The position from which on all is still seen by the model, and still held for a rewind, whatever has left
  // between the prefix and there; 0 when nothing has.
  std::int64_t seen_from() const;
  std::int64_t held_from() const;
  std::int64_t n_turns_seen() const { return turns_.count_in(seen_from(), n_read_); }
  Token token(std::int64_t position) const { return history_.at(position); }  // of the prefix, or held
  std::vector<Token> visible() const;                                         // what the model sees, in order

  struct Stats {
    std::int64_t fed_tokens = 0, fed_us = 0, generated_tokens = 0, generated_us = 0, reread_tokens = 0;
    std::int64_t unseen_tokens = 0;  // of the last feed: had left the window when it was through
  };
  const Stats& stats() const { return stats_; }

  // See runnel_session_save and runnel_session_load. A chat adds its own section to the file.
  Result<void> save(const std::string& path, const SavedFieldWriter* chat = nullptr) const;
  Result<void> load(const std::string& path);

  // Loading in two steps: all that a file says, checked (the spans are the file's), then taken over. After
  // std::bad_alloc in the second, its only failure, all is as it was.
  struct Saved {
    KvCache::Held cache;
    std::span<const std::byte> cache_bytes, logits;  // logits [n_vocab] or none
    std::int64_t n_read = 0;
    std::vector<Token> tokens;  // of the prefix, then of the window
    std::vector<std::int64_t> turns;
    SamplerState sampler{};
    Token end_token = -1;
    Utf8Stream utf8;  // of generated text that goes on
    StopText::Held held;
    Stats stats;
  };
  Result<Saved> read_saved(const SavedFile& file) const;
  void restore(Saved&& saved);

  std::int64_t scratch_bytes() const;

 private:
  Session(std::shared_ptr<const Model> model, const Settings& settings, const simd::Kernels& kernels,
          Rope rope, const CacheSize& size, Sampler sampler);

  SavedFieldWriter saved_settings() const;
  SavedFieldWriter saved_stream() const;
  SavedFieldWriter saved_sampler() const;
  Result<void> check_saved_settings(const SavedFile& file) const;
  Result<void> read_saved_stream(const SavedFile& file, Saved& saved) const;
  Result<void> read_saved_text(SavedFieldReader& in, Saved& saved) const;
  Result<void> read_saved_sampler(const SavedFile& file, Saved& saved) const;

  void clear(std::int64_t n_prefix);
  Error stopped(std::int64_t read_from);  // what was read since then, if anything, can be gone on from
  void resize_team(std::size_t n_threads);
  Result<void> read(std::span<const Token> tokens, runnel_logits_fn on_logits, void* user);
  // False where on_logits wants no more or a stop came. The batch is read all the same, unless the stop came
  // in the middle of several tokens: then all is as it was.
  bool read_batch(std::span<const Token> tokens, bool is_last, runnel_logits_fn on_logits, void* user);
  void tell_progress(double fraction);  // and stops, where nobody wants more
  void read_one(Token token);
  void read_generated(Token token, std::chrono::steady_clock::time_point start);
  void remember(std::span<const Token> tokens);
  void take_back(std::int64_t position);
  Result<void> read_again(std::int64_t to);
  void recall();
  template <class Take>
  void give_visible(Take&& take) const;  // what the model sees, token by token
  std::int64_t most_at_once() const;
  std::int64_t count_unseen(std::int64_t fed_from) const;
  std::size_t make_room();
  std::int64_t room_by_turn();
  std::int64_t reread_from() const;
  void reread();
  // What is generated next does not go on with the text generated before.
  void begin_text() noexcept;
  std::optional<runnel_finish> emit(Token token, runnel_text_fn on_text, void* user);
  runnel_finish finish(runnel_finish how, runnel_text_fn on_text, void* user);
  bool give(runnel_text_fn on_text, void* user);  // piece_ to the callback; false: it refused

  std::shared_ptr<const Model> model_;
  Settings settings_;
  simd::Kernels kernels_;
  Team team_;
  KvCache cache_;
  std::unique_ptr<Observer> observer_;
  Forward forward_;
  Sampler sampler_;
  StopText stop_text_;
  Utf8Stream utf8_;
  std::string piece_, text_;  // of the token at hand; kept to reuse their memory
  TokenHistory history_;
  TurnMarks turns_;
  bool is_chat_ = false;
  std::vector<Token> reread_batch_;  // where something may have to be read again
  const float* last_logits_ = nullptr;
  std::int64_t n_read_ = 0;
  bool is_giving_logits_ = false;  // to a callback, of tokens that the cache has already
  Token end_token_ = -1;
  Stats stats_;
  struct {
    runnel_progress_fn call = nullptr;
    void* user = nullptr;
  } progress_;
  std::atomic<bool> stop_{false};
  bool heeds_stops_ = true;
};

}  // namespace runnel
