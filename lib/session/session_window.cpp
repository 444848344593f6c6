// What a session's model sees: which tokens leave a full window, what is pinned, what can be taken back.
#include <algorithm>
#include <limits>

#include "lib/session/session.h"

namespace runnel {

bool Session::evicts_turns() const {
  return settings_.evict == Evict::turn || (settings_.evict == Evict::automatic && is_chat_);
}

void Session::mark_turn(std::int64_t position) {
  turns_.forget_before(held_from());
  turns_.mark(position);
}

std::int64_t Session::seen_from() const {
  const std::int64_t n_left = n_read_ - cache_.n_seen();
  return n_left > 0 ? n_prefix() + n_left : 0;
}

// Positions of the stream and of the cache are apart once learned positions were read again.
std::int64_t Session::held_from() const {
  const std::int64_t oldest = cache_.oldest() + n_read_ - cache_.position();
  return oldest > n_prefix() ? oldest : 0;
}

template <class Take>
void Session::give_visible(Take&& take) const {
  for (std::int64_t at = 0; at < std::min(n_prefix(), n_read_); ++at) take(token(at));
  for (std::int64_t at = std::max(seen_from(), n_prefix()); at < n_read_; ++at) take(token(at));
}

std::vector<Token> Session::visible() const {
  std::vector<Token> tokens;
  tokens.reserve(static_cast<std::size_t>(cache_.n_seen()));
  give_visible([&](Token token) { tokens.push_back(token); });
  return tokens;
}

Result<void> Session::rewind(std::int64_t position) {
  const std::int64_t n_pinned = std::min(n_prefix(), n_read_);
  const auto is_held = [&](std::int64_t at) { return at < n_pinned || at >= held_from(); };
  if (position < 0 || position > n_read_ || !(is_held(position) || position == n_pinned))
    return error(
        RUNNEL_BAD_ARGUMENT,
        "position is %lld, expected one from 0 to %lld, where the pinned prefix ends, or one from %lld to "
        "%lld, which the cache still holds",
        static_cast<long long>(position), static_cast<long long>(n_pinned),
        static_cast<long long>(held_from()), static_cast<long long>(n_read_));
  turns_.forget_after(position);
  // The token in front is read again, for its logits, unless it has left.
  const std::int64_t again = position > 0 && is_held(position - 1) ? position - 1 : position;
  if (position == n_read_ && (last_logits_ || again == position)) return {};
  begin_text();
  if (!cache_.has_seen(again)) return read_again(position);
  const Token token = history_.at(again);
  take_back(again);
  if (again < position) {
    read_one(token);
    recall();  // one more may have left the window for it
  }
  return {};
}

// Reads all again that is seen when `to` is the next position: layers with a window of their own have lost of
// it what only later tokens did not need. What stopped the work before does not stop this.
Result<void> Session::read_again(std::int64_t to) {
  const std::int64_t from = std::max(cache_.window_begin(to - 1), cache_.oldest());
  begin_call();
  cache_.evict(from);
  take_back(from);
  while (n_read_ < to) {
    const auto n = static_cast<std::size_t>(std::min(cache_.size().batch, to - n_read_));
    for (std::size_t i = 0; i < n; ++i) reread_batch_[i] = token(n_read_ + static_cast<std::int64_t>(i));
    const bool is_last = n_read_ + static_cast<std::int64_t>(n) == to;
    const bool goes_on = read_batch(std::span(reread_batch_).first(n), is_last, nullptr, nullptr);
    if (!goes_on && n_read_ < to) {
      turns_.forget_after(n_read_);
      return stopped(from);
    }
    stats_.reread_tokens += static_cast<std::int64_t>(n);
    tell_progress(static_cast<double>(n_read_ - from) / static_cast<double>(to - from));
  }
  return {};
}

void Session::take_back(std::int64_t position) {
  cache_.rewind(position <= n_prefix() ? position : cache_.position() - (n_read_ - position));
  n_read_ = position;
  last_logits_ = nullptr;
  recall();
}

// The sampler's recent tokens are those that are seen, as if they had just been read. Takes no memory: what
// is taken back because there was none left must be so to the end.
void Session::recall() {
  sampler_.forget();
  give_visible([&](Token token) { sampler_.accept(token); });
}

// How many tokens the next batch may have, at least one. Learned positions make room by reading again.
std::size_t Session::make_room() {
  std::int64_t room = cache_.size().batch;
  if (!model_->can_stream()) {
    if (cache_.n_free() == 0) reread();
    room = std::min(room, cache_.n_free());
  } else if (evicts_turns()) {
    room = std::min(room, room_by_turn());
  }
  return static_cast<std::size_t>(room);
}

// Each token decides for itself, so that it makes no difference in how many calls a text comes: one that
// finds the window full makes the oldest exchanges leave, as few as will do. Where that leaves none, since
// the exchange at hand is larger than the window, the exchange loses its oldest tokens until the next one
// begins.
std::int64_t Session::room_by_turn() {
  if (cache_.n_free() == 0) {
    if (const auto turn = turns_.first_in(std::max(seen_from(), n_prefix()) + 1, n_read_ + 1))
      cache_.evict(*turn);
  }
  if (cache_.n_free() > 0) return cache_.n_free();
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  return turns_.first_in(n_read_ + 1, never).value_or(never) - n_read_;
}

// Learned positions end with the trained context. To go on, the model reads the last half of the window again
// from the start of the context, behind the prefix. By turn it begins with an exchange: the first in that
// half, else the last before it that leaves room.
std::int64_t Session::reread_from() const {
  const std::int64_t half = n_read_ - std::min(cache_.size().window / 2, n_read_ - n_prefix());
  if (!evicts_turns()) return half;
  if (const auto turn = turns_.first_in(half, n_read_ + 1)) return *turn;
  return turns_.last_in(std::max(seen_from(), n_prefix()) + 1, half).value_or(half);
}

void Session::reread() {
  const std::int64_t from = reread_from();
  const std::int64_t n_again = n_prefix() + n_read_ - from;
  cache_.clear();
  while (cache_.position() < n_again) {
    const std::int64_t first = cache_.position();
    const auto n = static_cast<std::size_t>(std::min(cache_.size().batch, n_again - first));
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      reread_batch_[i] = token(at < n_prefix() ? at : from + at - n_prefix());
    }
    forward_.run(team_, cache_, std::span(reread_batch_).first(n), Outputs::last);
    cache_.advance(static_cast<std::int64_t>(n));
  }
  stats_.reread_tokens += n_again;
}

}  // namespace runnel
