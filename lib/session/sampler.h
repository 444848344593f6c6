// Chooses the next token from logits. The chain, each step on what the one before left:
//
//   1. logit bias           l += bias
//   2. repetition penalty   l = l > 0 ? l / r : l * r           for tokens among the last penalty_window
//                           (CTRL, eq. 3)
//   3. presence, frequency  l -= presence + frequency * count   for the same tokens
//   4. top-k                the k likeliest
//   5. typical              nearest to the expected surprise, until probability typical_p
//                           (Meister et al. 2022)
//   6. top-p                the likeliest, until probability top_p (Holtzman et al. 2019)
//   7. min-p                at least min_p times as likely as the likeliest left
//   8. temperature          p ~ exp(l / temperature)
//   9. draw
//
// Temperature 0 is greedy: the likeliest after step 3, and no random number is used. Of two tokens that are
// equal in a comparison the one with the lower id is first. NaN counts as -inf, a token at -inf is never
// chosen, and where no other is left the result is -1. Sums are in double and the generator is our own,
// so that a seed gives the same tokens from the same logits on every platform.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lib/settings.h"
#include "lib/token/tokenizer.h"

namespace runnel {

// The last tokens read and how often each is among them. Nothing allocates but resize().
class RecentTokens {
 public:
  // Keeps the last tokens that fit. After std::bad_alloc all is as it was.
  void resize(std::size_t window, std::size_t n_vocab);
  void push(Token token);  // an id outside [0, n_vocab) is ignored
  void clear();
  std::vector<Token> tokens() const;  // oldest first
  std::size_t size() const { return n_; }

  struct Count {
    Token token;
    std::int32_t count;
  };
  std::span<const Count> counts() const { return counts_; }  // one entry a token, in no order

 private:
  void count(Token token);
  void discount(Token token);

  std::vector<Token> ring_;          // [window]
  std::size_t n_ = 0;                // tokens in the ring
  std::size_t next_ = 0;             // where the next one goes, that is the oldest once the ring is full
  std::vector<Count> counts_;        // at most [min(window, n_vocab)]
  std::vector<std::int32_t> entry_;  // [n_vocab] index into counts_, or -1
};

// All that sampling depends on besides the settings.
struct SamplerState {
  std::uint64_t random;       // SplitMix64 (Steele, Lea, Flood 2014): one word, starting at the seed
  std::vector<Token> recent;  // oldest first, at most penalty_window
};

class Sampler {
 public:
  // Allocates everything sample() needs. Logit biases outside [0, n_vocab) are an error.
  static Result<Sampler> create(const Settings& settings, std::size_t n_vocab);

  // Takes new sampling settings; history and random state stay, but a new seed starts new random numbers.
  // After an error everything is as it was.
  Result<void> configure(const Settings& settings);

  // logits: [n_vocab]; -1 where none of them, with its bias, is a number above -inf. Allocates nothing.
  Token sample(std::span<const float> logits);
  // A token that was read: the penalties look at the last of them.
  void accept(Token token) { recent_.push(token); }
  std::size_t n_recent() const { return recent_.size(); }  // tokens that they look at
  void forget() { recent_.clear(); }                       // no history
  void reset();                                            // nor random numbers but those of the seed

  SamplerState state() const { return {random_, recent_.tokens()}; }
  void restore(const SamplerState& state);

  struct Candidate {
    float logit;
    Token id;
    double weight;  // not normalised
  };

 private:
  explicit Sampler(std::size_t n_vocab);
  std::span<const float> adjust(std::span<const float> logits);
  double uniform();

  Settings settings_;
  std::size_t n_vocab_;
  RecentTokens recent_;
  std::uint64_t random_ = 0;
  std::vector<float> adjusted_;        // [n_vocab] logits after steps 1 to 3
  std::vector<Candidate> candidates_;  // at most [n_vocab]
};

}  // namespace runnel
