#include "lib/session/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lib/splitmix64.h"

namespace runnel {
namespace {

using Candidate = Sampler::Candidate;

constexpr float infinity = std::numeric_limits<float>::infinity();

// The likeliest token, or -1. Comparisons with NaN are false, so that it never wins. Maxima first, in lanes
// that do not wait for each other, then the first token that has the maximum.
Token argmax(std::span<const float> logits) {
  std::array<float, 16> lanes;
  lanes.fill(-infinity);
  const std::size_t n_whole = logits.size() - logits.size() % lanes.size();
  for (std::size_t i = 0; i < n_whole; i += lanes.size()) {
    for (std::size_t j = 0; j < lanes.size(); ++j)
      lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];
  }
  float max = *std::max_element(lanes.begin(), lanes.end());
  for (const float l : logits.subspan(n_whole)) max = l > max ? l : max;
  if (max == -infinity) return -1;
  return static_cast<Token>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

float max_logit(const std::vector<Candidate>& candidates) {
  return std::min_element(candidates.begin(), candidates.end(), likelier)->logit;
}

// The k likeliest tokens above -inf, likeliest first; in the order of their ids when that is all of them. One
// pass: candidates gather in a buffer of about 2k, and whenever it is full the k best stay and raise the
// floor.
void collect_top_k(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out) {
  const std::size_t full = k + std::max<std::size_t>(k, 64);
  const auto cut = [&] {
    std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k - 1), out.end(), likelier);
    out.resize(k);
  };
  out.clear();
  float floor = -infinity;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > floor)) continue;  // as likely as the floor is not enough: ids only grow
    // +inf would make differences NaN.
    out.push_back({std::min(logits[i], std::numeric_limits<float>::max()), static_cast<Token>(i), 0.0});
    if (out.size() == full) {
      cut();
      floor = out.back().logit;
    }
  }
  if (out.size() > k) cut();
  if (k < logits.size()) std::sort(out.begin(), out.end(), likelier);
}

// weight = exp((l - max) / temperature); returns their sum, which is at least 1.
double weigh(std::vector<Candidate>& candidates, double temperature) {
  const double max = max_logit(candidates);
  double sum = 0.0;
  for (Candidate& c : candidates) {
    c.weight = std::exp((c.logit - max) / temperature);
    sum += c.weight;
  }
  return sum;
}

// Keeps the first candidates of the order until their weights reach `mass`. Sorts no more than it needs to: a
// part at a time, each eight times as long.
template <class Order>
void keep_mass(std::vector<Candidate>& candidates, double mass, Order before) {
  double sum = 0.0;
  std::size_t part = 64;
  for (std::size_t begin = 0; begin < candidates.size(); part *= 8) {
    const std::size_t end = std::min(begin + part, candidates.size());
    const auto at = [&](std::size_t i) { return candidates.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < candidates.size()) std::nth_element(at(begin), at(end), candidates.end(), before);
    std::sort(at(begin), at(end), before);
    for (; begin < end; ++begin) {
      sum += candidates[begin].weight;
      if (sum >= mass) return candidates.resize(begin + 1);
    }
  }
}

// With p = exp(l - max) / Z the surprise is -ln p = ln Z + max - l and its expectation, the entropy, is
// H = ln Z + max - E[l]; their difference is E[l] - l.
void keep_typical(std::vector<Candidate>& candidates, double typical_p) {
  const double sum = weigh(candidates, 1.0);
  double expected = 0.0;
  for (const Candidate& c : candidates) expected += c.logit * (c.weight / sum);
  keep_mass(candidates, typical_p * sum, [expected](const Candidate& a, const Candidate& b) {
    const double da = std::abs(expected - a.logit);
    const double db = std::abs(expected - b.logit);
    return da != db ? da < db : a.id < b.id;
  });
}

void keep_top_p(std::vector<Candidate>& candidates, double top_p) {
  const double sum = weigh(candidates, 1.0);
  keep_mass(candidates, top_p * sum, likelier);
}

// p >= min_p * max p, in logits.
void keep_min_p(std::vector<Candidate>& candidates, double min_p) {
  const double floor = max_logit(candidates) + std::log(min_p);
  const auto unlikely = [floor](const Candidate& c) { return c.logit < floor; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), unlikely), candidates.end());
}

// uniform: in [0, 1); sum: of the weights, added in this order, so that the last partial sum is above the
// target.
Token draw(const std::vector<Candidate>& candidates, double sum, double uniform) {
  const double target = uniform * sum;
  double partial = 0.0;
  for (const Candidate& c : candidates) {
    partial += c.weight;
    if (partial > target) return c.id;
  }
  return candidates.back().id;
}

}  // namespace

// ---- RecentTokens ----

void RecentTokens::resize(std::size_t window, std::size_t n_vocab) {
  RecentTokens resized;
  resized.ring_.assign(window, 0);
  resized.entry_.assign(n_vocab, -1);
  resized.counts_.reserve(std::min(window, n_vocab));
  for (const Token token : tokens()) resized.push(token);
  *this = std::move(resized);
}

void RecentTokens::push(Token token) {
  if (ring_.empty() || token < 0 || static_cast<std::size_t>(token) >= entry_.size()) return;
  if (n_ == ring_.size()) {
    discount(ring_[next_]);
  } else {
    ++n_;
  }
  ring_[next_] = token;
  next_ = (next_ + 1) % ring_.size();
  count(token);
}

void RecentTokens::clear() {
  for (const Count& c : counts_) entry_[static_cast<std::size_t>(c.token)] = -1;
  counts_.clear();
  n_ = next_ = 0;
}

std::vector<Token> RecentTokens::tokens() const {
  std::vector<Token> out;
  out.reserve(n_);
  for (std::size_t i = 0; i < n_; ++i) out.push_back(ring_[(next_ + ring_.size() - n_ + i) % ring_.size()]);
  return out;
}

void RecentTokens::count(Token token) {
  std::int32_t& entry = entry_[static_cast<std::size_t>(token)];
  if (entry < 0) {
    entry = static_cast<std::int32_t>(counts_.size());
    counts_.push_back({token, 0});
  }
  ++counts_[static_cast<std::size_t>(entry)].count;
}

void RecentTokens::discount(Token token) {
  std::int32_t& entry = entry_[static_cast<std::size_t>(token)];
  Count& gone = counts_[static_cast<std::size_t>(entry)];
  if (--gone.count > 0) return;
  gone = counts_.back();
  entry_[static_cast<std::size_t>(gone.token)] = entry;
  entry_[static_cast<std::size_t>(token)] = -1;
  counts_.pop_back();
}

// ---- Sampler ----

Sampler::Sampler(std::size_t n_vocab) : n_vocab_(n_vocab), adjusted_(n_vocab) {
  candidates_.reserve(n_vocab);
}

Result<Sampler> Sampler::create(const Settings& settings, std::size_t n_vocab) {
  constexpr std::size_t most = std::numeric_limits<Token>::max();
  if (n_vocab == 0 || n_vocab > most) {
    return error(RUNNEL_BAD_ARGUMENT, "sampler: expected a vocabulary of 1 to %zu tokens, got %zu", most,
                 n_vocab);
  }
  Sampler sampler(n_vocab);
  RUNNEL_TRY(sampler.configure(settings));
  sampler.reset();
  return sampler;
}

Result<void> Sampler::configure(const Settings& settings) {
  for (const auto& [token, bias] : settings.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= n_vocab_) {
      return error(RUNNEL_BAD_ARGUMENT, "logit_bias: expected token ids from 0 to %zu, got %d", n_vocab_ - 1,
                   token);
    }
  }
  Settings taken = settings;  // all that takes memory comes before what changes
  recent_.resize(static_cast<std::size_t>(settings.penalty_window), n_vocab_);
  if (settings.seed != settings_.seed) random_ = settings.seed;
  settings_ = std::move(taken);
  return {};
}

void Sampler::reset() {
  recent_.clear();
  random_ = settings_.seed;
}

void Sampler::restore(const SamplerState& state) {
  recent_.clear();
  for (const Token token : state.recent) recent_.push(token);
  random_ = state.random;
}

Token Sampler::sample(std::span<const float> logits) {
  logits = adjust(logits.first(std::min(logits.size(), n_vocab_)));
  if (settings_.temperature <= 0.0f) return argmax(logits);

  const auto top_k = static_cast<std::size_t>(settings_.top_k);
  collect_top_k(logits, top_k == 0 ? logits.size() : std::min(top_k, logits.size()), candidates_);
  const double u = uniform();
  if (candidates_.empty()) return -1;
  if (settings_.typical_p < 1.0f) keep_typical(candidates_, settings_.typical_p);
  if (settings_.top_p < 1.0f) keep_top_p(candidates_, settings_.top_p);
  if (settings_.min_p > 0.0f) keep_min_p(candidates_, settings_.min_p);
  return draw(candidates_, weigh(candidates_, settings_.temperature), u);
}

// Steps 1 to 3. The logits themselves where there is nothing to do.
std::span<const float> Sampler::adjust(std::span<const float> logits) {
  const float repetition = settings_.repetition_penalty;
  const float presence = settings_.presence_penalty;
  const float frequency = settings_.frequency_penalty;
  const bool penalise = repetition != 1.0f || presence != 0.0f || frequency != 0.0f;
  if (settings_.logit_bias.empty() && !penalise) return logits;

  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [token, bias] : settings_.logit_bias) adjusted_[static_cast<std::size_t>(token)] += bias;
  if (penalise) {
    for (const auto& [token, count] : recent_.counts()) {
      float& logit = adjusted_[static_cast<std::size_t>(token)];
      logit = logit > 0.0f ? logit / repetition : logit * repetition;
      logit -= presence + frequency * static_cast<float>(count);
    }
  }
  return {adjusted_.data(), logits.size()};
}

// The upper 53 bits of a random number, as one in [0, 1).
double Sampler::uniform() {
  const std::uint64_t bits = splitmix64(random_);
  random_ += splitmix64_step;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace runnel
