#include "lib/session/session.h"

#include <algorithm>
#include <limits>
#include <new>

#include "lib/system/machine.h"
#include "lib/text/printable.h"

namespace runnel {
namespace {

constexpr std::int64_t max_default_window = 4096;

using Clock = std::chrono::steady_clock;

std::int64_t us_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

}  // namespace

Result<CacheSize> cache_size(const Model& model, const Settings& settings) {
  const auto n_ctx_train = static_cast<std::int64_t>(model.shape().n_ctx_train);
  const auto n_ctx_default = static_cast<std::int64_t>(model.n_ctx_default());
  CacheSize size;
  size.n_prefix = settings.sinks;
  size.window = settings.window > 0
                    ? settings.window
                    : std::clamp<std::int64_t>(n_ctx_default - size.n_prefix, 1, max_default_window);
  if (!model.can_stream() && size.n_prefix + size.window > n_ctx_train)
    return error(RUNNEL_BAD_ARGUMENT,
                 "window: %lld tokens after %lld sinks, but this model has learned positions for %lld only",
                 static_cast<long long>(size.window), static_cast<long long>(size.n_prefix),
                 static_cast<long long>(n_ctx_train));
  size.batch = std::min<std::int64_t>(settings.batch, size.n_prefix + size.window);
  return size;
}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const Model> model, const Settings& settings) {
  RUNNEL_TRY(model->check_weights());
  RUNNEL_ASSIGN(const CacheSize size, cache_size(*model, settings));
  RUNNEL_ASSIGN(Rope rope, model->rope(static_cast<std::size_t>(size.n_prefix + size.window)));
  RUNNEL_ASSIGN(Sampler sampler, Sampler::create(settings, model->shape().n_vocab));
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  const std::int64_t cache_bytes = KvCache::n_bytes(*model, size, settings.cache);
  try {
    return std::unique_ptr<Session>(
        new Session(std::move(model), settings, kernels, std::move(rope), size, std::move(sampler)));
  } catch (const std::bad_alloc&) {
    constexpr std::int64_t mebibyte = 1 << 20;
    return error(RUNNEL_NO_MEMORY,
                 "not enough memory for a session: %lld sinks and a window of %lld tokens take %lld MiB; a "
                 "smaller \"window\" takes less, or another type of \"cache\"",
                 static_cast<long long>(size.n_prefix), static_cast<long long>(size.window),
                 static_cast<long long>(cache_bytes / mebibyte));
  }
}

Session::Session(std::shared_ptr<const Model> model, const Settings& settings, const simd::Kernels& kernels,
                 Rope rope, const CacheSize& size, Sampler sampler)
    : model_(std::move(model)),
      settings_(settings),
      kernels_(kernels),
      team_(thread_count(settings)),
      cache_(*model_, size, settings.cache),
      forward_(*model_, kernels_, std::move(rope), size, thread_count(settings)),
      sampler_(std::move(sampler)),
      stop_text_(settings.stop),
      // As the longest ring of the cache, so that a rewind finds ids for all the keys that are left.
      history_(size.n_prefix + size.ring_slots(size.window), size.n_prefix) {
  bool keeps_all = model_->can_stream();
  for (std::size_t l = 0; l < model_->shape().n_layer; ++l)
    keeps_all = keeps_all && cache_.sees_whole_window(l, size.n_prefix + size.window);
  if (!keeps_all) reread_batch_.resize(static_cast<std::size_t>(size.batch));
}

Error Session::stopped(std::int64_t read_from) {
  if (!last_logits_ && n_read_ > read_from) last_logits_ = forward_.last_logits(team_);
  return error(RUNNEL_STOPPED, "stopped on request");
}

std::int64_t Session::scratch_bytes() const {
  return Forward::n_bytes(*model_, kernels_, cache_.size(), forward_.n_threads());
}

void Session::clear(std::int64_t n_prefix) {
  cache_.restart(n_prefix);
  history_.set_prefix(n_prefix);
  turns_.clear();
  begin_text();
  last_logits_ = nullptr;
  n_read_ = 0;
}

void Session::reset(std::int64_t n_prefix) {
  clear(n_prefix);
  is_chat_ = false;
  set_answer_end({});
  sampler_.reset();
  end_token_ = -1;
  stats_ = {};
}

Result<void> Session::check_prefix(std::int64_t n_prefix) const {
  if (n_prefix < 0 || n_prefix >= n_total())
    return error(
        RUNNEL_BAD_ARGUMENT,
        "%lld tokens are to stay for ever, but the cache holds %lld in all (sinks and window) and one at "
        "least must be left for the window: take a larger \"window\"",
        static_cast<long long>(n_prefix), static_cast<long long>(n_total()));
  return {};
}

Result<void> Session::pin(std::int64_t n_tokens) {
  if (n_read_ > 0)
    return error(RUNNEL_BAD_ARGUMENT, "%lld tokens were read already: pin before the first, or after a reset",
                 static_cast<long long>(n_read_));
  return restart(n_tokens);
}

Result<void> Session::restart(std::int64_t n_prefix) {
  RUNNEL_TRY(check_prefix(n_prefix));
  clear(n_prefix);
  recall();
  return {};
}

Result<void> Session::set(std::string_view name, std::string_view value) {
  const SettingInfo* info = find_setting(name);
  if (info && info->scope < SettingScope::running)
    return error(RUNNEL_BAD_ARGUMENT,
                 "%s: cannot be changed on a running session, only chosen when it is opened",
                 printable(name, 60).c_str());
  Settings changed = settings_;
  RUNNEL_TRY(changed.set(name, value));
  std::vector<std::string> stops = changed.stop;
  RUNNEL_TRY(sampler_.configure(changed));
  resize_team(thread_count(changed));
  const bool counts_more = changed.penalty_window > settings_.penalty_window;
  settings_ = std::move(changed);
  if (counts_more && sampler_.n_recent() < static_cast<std::size_t>(cache_.n_seen())) recall();
  stop_text_.set_stops(std::move(stops));
  return {};
}

// Scratch grows before the team and shrinks after it: should memory run out, every thread still has its own.
void Session::resize_team(std::size_t n_threads) {
  const std::size_t old = team_.size();
  if (n_threads == old) return;  // takes no memory, for set() has changed the sampler by then
  if (n_threads > old) forward_.resize_team(n_threads);
  team_.resize(n_threads);
  if (n_threads < old) forward_.resize_team(n_threads);
}

void Session::set_observer(std::unique_ptr<Observer> observer) {
  forward_.set_observer(observer.get());
  observer_ = std::move(observer);
}

Result<void> Session::feed(std::span<const Token> tokens, runnel_logits_fn on_logits, void* user) {
  RUNNEL_TRY(model_->check_tokens(tokens));
  if (settings_.overflow == Overflow::error && tokens.size() > static_cast<std::size_t>(most_at_once()))
    return error(
        RUNNEL_BAD_ARGUMENT,
        "overflow: %zu tokens at once, but the window takes %lld: give less, a larger \"window\", or let "
        "them stream through it (\"overflow\" stream)",
        tokens.size(), static_cast<long long>(most_at_once()));
  const std::int64_t before = n_read_;
  Result<void> result = read(tokens, on_logits, user);
  stats_.unseen_tokens = count_unseen(before);
  return result;
}

// Of these the model surely sees all when the last is read. A window that is read again keeps half of itself.
std::int64_t Session::most_at_once() const {
  const std::int64_t window = cache_.size().window;
  const std::int64_t in_any_case = model_->can_stream() ? window : std::max<std::int64_t>(1, window / 2);
  return std::max(in_any_case, cache_.n_free());
}

// Tokens from `fed_from` on, or from where an exchange begins after it, that are no longer seen.
std::int64_t Session::count_unseen(std::int64_t fed_from) const {
  const std::int64_t begin = turns_.last_in(fed_from, n_read_).value_or(fed_from);
  return std::max<std::int64_t>(0, seen_from() - std::max(begin, n_prefix()));
}

Result<void> Session::read(std::span<const Token> tokens, runnel_logits_fn on_logits, void* user) {
  const std::int64_t before = n_read_;
  const auto n_all = static_cast<double>(tokens.size());
  while (!tokens.empty()) {
    const Clock::time_point start = Clock::now();
    const std::int64_t first = n_read_;
    const std::size_t n = std::min(tokens.size(), make_room());
    const bool goes_on = read_batch(tokens.first(n), n == tokens.size(), on_logits, user);
    if (n_read_ > first) {  // what a stop broke off is not read: nor does its time count
      begin_text();
      stats_.fed_tokens += n_read_ - first;
      stats_.fed_us += us_since(start);
    }
    tokens = tokens.subspan(n);
    if (goes_on) {
      tell_progress(1.0 - static_cast<double>(tokens.size()) / n_all);
      continue;
    }
    return stopped(before);
  }
  return {};
}

// A stop is one of the next batch, or of what is generated then.
void Session::tell_progress(double fraction) {
  if (progress_.call && progress_.call(progress_.user, fraction) != 0) stop();
}

bool Session::read_batch(std::span<const Token> tokens, bool is_last, runnel_logits_fn on_logits,
                         void* user) {
  const bool is_read_whole = tokens.size() == 1 || !heeds_stops_;  // whatever comes
  const Outputs outputs = on_logits ? Outputs::all : Outputs::last;
  if (!forward_.run(team_, cache_, tokens, outputs, is_read_whole ? nullptr : &stop_)) {
    cache_.give_up(static_cast<std::int64_t>(tokens.size()));
    return false;
  }
  const std::int64_t first = n_read_;
  const std::size_t n_vocab = model_->shape().n_vocab;
  remember(tokens);
  cache_.advance(static_cast<std::int64_t>(tokens.size()));
  last_logits_ = nullptr;
  bool go_on = true;
  if (on_logits) {
    is_giving_logits_ = true;
    for (std::size_t begin = 0; begin < tokens.size() && go_on; begin += forward_.max_logits()) {
      const std::size_t end = std::min(tokens.size(), begin + forward_.max_logits());
      const float* logits = forward_.logits(team_, begin, end);
      for (std::size_t t = begin; t < end && go_on; ++t)
        go_on = on_logits(user, first + static_cast<std::int64_t>(t), logits + (t - begin) * n_vocab) == 0;
      last_logits_ = end == tokens.size() ? logits + (end - begin - 1) * n_vocab : nullptr;
    }
    is_giving_logits_ = false;
  } else if (is_last) {
    last_logits_ = forward_.last_logits(team_);
  }
  return go_on && !is_stopping();
}

void Session::read_one(Token token) {
  make_room();
  read_batch({&token, 1}, true, nullptr, nullptr);
}

void Session::remember(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    sampler_.accept(token);
    history_.put(n_read_++, token);
  }
}

Result<Token> Session::sample() {
  if (!last_logits_)
    return error(RUNNEL_BAD_ARGUMENT,
                 "there is nothing to go on from: feed the session at least one token first");
  const Token token = sampler_.sample({last_logits_, model_->shape().n_vocab});
  if (token >= 0) return token;
  const auto is_possible = [](float logit) { return logit > -std::numeric_limits<float>::infinity(); };
  if (std::any_of(last_logits_, last_logits_ + model_->shape().n_vocab, is_possible))
    return error(RUNNEL_BAD_ARGUMENT, "logit_bias: none is left of the tokens that the model might choose");
  return error(
      RUNNEL_BAD_FILE,
      "%s: the model has no next token, for none of its results is a number: a weight in the file is "
      "damaged, or what a session brought back",
      model_->file().name().c_str());
}

Result<void> Session::check_count(std::int64_t n_tokens) {
  if (n_tokens >= -1) return {};
  return error(RUNNEL_BAD_ARGUMENT, "n_tokens is %lld, expected a count, or -1 for no end",
               static_cast<long long>(n_tokens));
}

Result<runnel_finish> Session::generate(std::int64_t n_tokens, runnel_text_fn on_text, void* user) {
  RUNNEL_TRY(check_count(n_tokens));
  end_token_ = -1;
  const Tokenizer* tokenizer = model_->tokenizer();
  for (std::int64_t i = 0; i != n_tokens; ++i) {
    const Clock::time_point start = Clock::now();
    if (is_stopping()) return finish(RUNNEL_FINISH_STOPPED, on_text, user);
    RUNNEL_ASSIGN(const Token token, sample());
    if (tokenizer && tokenizer->ends_generation(token) && !settings_.ignore_eos) {
      end_token_ = token;
      return finish(RUNNEL_FINISH_END, on_text, user);
    }
    read_generated(token, start);
    if (const auto ended = emit(token, on_text, user)) return *ended;
  }
  return finish(RUNNEL_FINISH_LENGTH, on_text, user);
}

void Session::read_end_token() { read_generated(end_token_, Clock::now()); }

void Session::read_generated(Token token, Clock::time_point start) {
  read_one(token);
  ++stats_.generated_tokens;
  stats_.generated_us += us_since(start);
}

// Gives the text that has become certain with this token: whole characters that cannot be the start of a stop
// text.
std::optional<runnel_finish> Session::emit(Token token, runnel_text_fn on_text, void* user) {
  if (!model_->tokenizer()) return std::nullopt;
  piece_.clear();
  text_.clear();
  model_->tokenizer()->decode(token, false, piece_);
  utf8_.push(piece_, text_);
  piece_.clear();
  const bool found = stop_text_.push(text_, piece_);
  if (found) begin_text();
  if (!give(on_text, user)) return RUNNEL_FINISH_STOPPED;
  return found ? std::optional(RUNNEL_FINISH_STOP_TEXT) : std::nullopt;
}

void Session::begin_text() noexcept {
  utf8_.clear();
  stop_text_.clear();
}

// Gives what was held back. Half a character is U+FFFD at the end of a text, and else waits for what is
// generated next.
runnel_finish Session::finish(runnel_finish how, runnel_text_fn on_text, void* user) {
  piece_.clear();
  text_.clear();
  if (how == RUNNEL_FINISH_END) utf8_.flush(text_);
  if (stop_text_.push(text_, piece_))
    how = RUNNEL_FINISH_STOP_TEXT;
  else
    stop_text_.flush(piece_);
  if (how == RUNNEL_FINISH_END || how == RUNNEL_FINISH_STOP_TEXT) begin_text();
  return give(on_text, user) ? how : RUNNEL_FINISH_STOPPED;
}

bool Session::give(runnel_text_fn on_text, void* user) {
  if (piece_.empty() || !on_text) return true;
  return on_text(user, piece_.data(), piece_.size(), token(n_read_ - 1)) == 0;
}

}  // namespace runnel
