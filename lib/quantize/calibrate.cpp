#include "lib/quantize/calibrate.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "lib/forward.h"
#include "lib/kv_cache.h"
#include "lib/token/tokenizer.h"

namespace runnel {
namespace {

constexpr std::size_t max_piece = 512;  // tokens
constexpr std::size_t max_tokens = 10240;
constexpr std::size_t min_tokens = 128;

// Hands on what is seen, and asks after each layer whether to go on: a piece as a whole can take minutes.
class AskingObserver final : public Observer {
 public:
  AskingObserver(Observer& observer, const std::function<Result<void>()>& on_layer)
      : observer_(observer), on_layer_(on_layer) {}

  const std::atomic<bool>& is_stopped() const { return is_stopped_; }
  Result<void> result() {
    if (thrown_) std::rethrow_exception(thrown_);
    return std::move(answer_);
  }

  void see(const Observation& what) noexcept override {
    observer_.see(what);
    if (what.site == Site::stream && what.layer > 0 && !is_stopped_) ask();
  }
  void see_prefix_mass(std::size_t layer, std::size_t head, std::int64_t position,
                       float mass) noexcept override {
    observer_.see_prefix_mass(layer, head, position, mass);
  }

 private:
  void ask() noexcept {
    try {
      answer_ = on_layer_();
    } catch (...) {  // no memory for an error, for one
      thrown_ = std::current_exception();
    }
    is_stopped_ = thrown_ || !answer_;
  }

  Observer& observer_;
  const std::function<Result<void>()>& on_layer_;
  std::atomic<bool> is_stopped_{false};
  Result<void> answer_;
  std::exception_ptr thrown_;
};

}  // namespace

Result<Calibration> Calibration::create(const Model& model, std::string_view text) {
  const Tokenizer* tokenizer = model.tokenizer();
  if (!tokenizer)
    return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer to read a calibration text with",
                 model.file().name().c_str());
  std::vector<Token> tokens;
  RUNNEL_TRY(tokenizer->encode(text, RUNNEL_ADD_BOS | RUNNEL_PARSE_SPECIAL, tokens));
  if (tokens.size() < min_tokens)
    return error(RUNNEL_BAD_ARGUMENT, "the calibration text has %zu tokens; at least %zu are needed",
                 tokens.size(), min_tokens);
  Calibration result;
  result.n_piece_ = std::min({max_piece, model.shape().n_ctx_train, tokens.size()});
  const std::size_t n_available = tokens.size() / result.n_piece_;
  const std::size_t n_pieces = std::min(n_available, std::max<std::size_t>(max_tokens / result.n_piece_, 1));
  for (std::size_t i = 0; i < n_pieces; ++i) {
    const auto begin =
        tokens.begin() + static_cast<std::ptrdiff_t>(n_available * i / n_pieces * result.n_piece_);
    result.pieces_.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(result.n_piece_));
    if (tokenizer->adds_bos()) result.pieces_.back()[0] = tokens[0];
  }
  return result;
}

Result<void> Calibration::run(const Model& model, const simd::Kernels& kernels, std::size_t n_threads,
                              Observer& observer, const std::function<Result<void>()>& on_layer) const {
  const auto n = static_cast<std::int64_t>(n_piece_);
  const CacheSize size{.n_prefix = 0, .window = n, .batch = n};
  RUNNEL_ASSIGN(Rope rope, model.rope(n_piece_));
  Team team(n_threads);
  KvCache cache(model, size, CacheType::f32);
  Forward forward(model, kernels, std::move(rope), size, n_threads);
  AskingObserver asking(observer, on_layer);
  forward.set_observer(&asking);
  for (const std::vector<Token>& piece : pieces_) {
    cache.clear();
    forward.run(team, cache, piece, Outputs::all, &asking.is_stopped());
    if (asking.is_stopped()) break;
  }
  return asking.result();
}

}  // namespace runnel
